//! A small blocking HTTP/1.1 client: sends and receives apart, so that a test can keep many requests in flight.
//! Tests of the REST endpoint connect it; answers come back with status, headers and body.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::LONG;

pub struct Client {
    pub stream: TcpStream,
    reader: BufReader<TcpStream>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { reader: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    pub fn send(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: t\r\n{headers}content-length: {}\r\n\r\n", body.len());
        self.stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    }

    pub fn receive(&mut self) -> Answer {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {line:?}")).parse().unwrap();
        let mut headers = Vec::new();
        loop {
            line.clear();
            self.reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        let length = headers.iter().find(|(name, _)| name == "content-length").map_or("0", |(_, value)| value);
        let mut body = vec![0; length.parse().unwrap()];
        self.reader.read_exact(&mut body).unwrap();
        Answer { status, headers, body: String::from_utf8(body).unwrap() }
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        let late = |kind| matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut);
        match self.reader.fill_buf() {
            Ok(more) => more.is_empty(),
            Err(error) => !late(error.kind()),
        }
    }

    pub fn send_predict(&mut self, body: &str) {
        self.send("POST", "/v1/models/m:predict", "", body.as_bytes());
    }

    pub fn predict(&mut self, body: &str) -> Answer {
        self.send_predict(body);
        self.receive()
    }

    pub fn post(&mut self, path: &str, body: &str) -> Answer {
        self.send("POST", path, "", body.as_bytes());
        self.receive()
    }

    pub fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, "", b"");
        self.receive()
    }
}
