//! A small gRPC client on h2: unary calls that block, and calls that are started, awaited or given up on.
//! Tests of the gRPC endpoint connect it; answers come back with status, headers and message.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;

use super::LONG;

pub const PREDICT: &str = "/tensorflow.serving.PredictionService/Predict";

pub struct Client {
    pub runtime: Runtime,
    sender: SendRequest<Bytes>,
}

#[derive(Debug)]
pub struct Answer {
    pub code: i32,
    pub message: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// A call under way; dropping it resets the stream.
pub struct Call {
    response: ResponseFuture,
}

/// An answer of many messages; dropping it resets the stream.
pub struct Stream {
    body: RecvStream,
    gathered: Vec<u8>,
}

pub fn frame(message: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    out.extend_from_slice(&(message.len() as u32).to_be_bytes());
    out.extend_from_slice(message);
    out
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        Client::connect_with(address, &h2::client::Builder::new())
    }

    /// Takes all that is sent, however much of it nobody reads; others take 64 KiB of all answers together.
    pub fn connect_wide(address: SocketAddr) -> Client {
        Client::connect_with(address, h2::client::Builder::new().initial_connection_window_size(1 << 30))
    }

    fn connect_with(address: SocketAddr, builder: &h2::client::Builder) -> Client {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let socket = runtime.block_on(tokio::net::TcpStream::connect(address)).unwrap();
        socket.set_nodelay(true).unwrap();
        Client::over(runtime, socket, builder)
    }

    pub fn connect_unix(path: &std::path::Path) -> Client {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let socket = runtime.block_on(tokio::net::UnixStream::connect(path)).unwrap();
        Client::over(runtime, socket, &h2::client::Builder::new())
    }

    fn over<S>(runtime: Runtime, socket: S, builder: &h2::client::Builder) -> Client
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let sender = runtime.block_on(async {
            let (sender, connection) = builder.handshake(socket).await.unwrap();
            tokio::spawn(connection);
            sender
        });
        Client { runtime, sender }
    }

    pub fn start(&mut self, path: &str, headers: &[(&str, &str)], framed: Vec<u8>) -> Call {
        let mut request = Request::post(format!("http://t{path}")).header("te", "trailers");
        request = request.header("content-type", "application/grpc");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let sender = self.sender.clone();
        let request = request.body(()).unwrap();
        self.runtime.block_on(async move {
            let mut sender = sender.ready().await.unwrap();
            let (response, mut body) = sender.send_request(request, false).unwrap();
            // A call that is refused by its head may be over already.
            let _ = body.send_data(framed.into(), true);
            Call { response }
        })
    }

    /// Begins a call whose message does not end.
    pub fn open_ended(&mut self, path: &str, headers: &[(&str, &str)], framed: Vec<u8>) -> (Call, SendStream<Bytes>) {
        let request = Request::post(format!("http://t{path}")).header("content-type", "application/grpc");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).body(());
        let sender = self.sender.clone();
        self.runtime.block_on(async move {
            let mut sender = sender.ready().await.unwrap();
            let (response, mut body) = sender.send_request(request.unwrap(), false).unwrap();
            // Very many frames without data are an attack, for which a server may close the connection.
            if !framed.is_empty() {
                // A call that is refused by its head may be over already.
                let _ = body.send_data(framed.into(), false);
            }
            (Call { response }, body)
        })
    }

    pub fn finish(&self, call: Call) -> Answer {
        self.runtime.block_on(async {
            let response = tokio::time::timeout(LONG, call.response).await.unwrap().unwrap();
            let (head, mut body) = response.into_parts();
            let mut framed = Vec::new();
            while let Some(data) = body.data().await {
                let data = data.unwrap();
                body.flow_control().release_capacity(data.len()).unwrap();
                framed.extend_from_slice(&data);
            }
            let trailers = body.trailers().await.unwrap_or(None).unwrap_or_default();
            let field = |name: &str| {
                let value = trailers.get(name).or_else(|| head.headers.get(name));
                value.map(|value| value.to_str().unwrap().to_owned())
            };
            Answer {
                code: field("grpc-status").unwrap_or_else(|| panic!("no status: {head:?}")).parse().unwrap(),
                message: percent_decode(&field("grpc-message").unwrap_or_default()),
                headers: head.headers.clone(),
                body: framed.get(5..).unwrap_or_default().to_vec(),
            }
        })
    }

    pub fn call(&mut self, path: &str, headers: &[(&str, &str)], message: &[u8]) -> Answer {
        let call = self.start(path, headers, frame(message));
        self.finish(call)
    }

    /// Begins a call that is answered with a stream of messages.
    pub fn open(&mut self, path: &str, headers: &[(&str, &str)], message: &[u8]) -> Stream {
        let call = self.start(path, headers, frame(message));
        self.answers(call)
    }

    /// The stream of messages that a call is answered with.
    pub fn answers(&self, call: Call) -> Stream {
        self.runtime.block_on(async {
            let response = tokio::time::timeout(LONG, call.response).await.unwrap().unwrap();
            Stream { body: response.into_body(), gathered: Vec::new() }
        })
    }

    /// The next message of a stream, or the status with which it ended.
    pub fn next(&self, stream: &mut Stream) -> Result<Vec<u8>, i32> {
        let next = async {
            loop {
                if let Some(length) = stream.gathered.get(1..5) {
                    let end = 5 + u32::from_be_bytes(length.try_into().unwrap()) as usize;
                    if stream.gathered.len() >= end {
                        return Ok(stream.gathered.drain(..end).skip(5).collect());
                    }
                }
                let Some(data) = stream.body.data().await else {
                    let trailers = stream.body.trailers().await.unwrap().unwrap();
                    return Err(trailers["grpc-status"].to_str().unwrap().parse().unwrap());
                };
                let data = data.unwrap();
                stream.body.flow_control().release_capacity(data.len()).unwrap();
                stream.gathered.extend_from_slice(&data);
            }
        };
        self.runtime.block_on(async { tokio::time::timeout(LONG, next).await.unwrap() })
    }

    pub fn predict(&mut self, message: &[u8]) -> Answer {
        self.call(PREDICT, &[], message)
    }
}

fn percent_decode(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
            out.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).unwrap()
}
