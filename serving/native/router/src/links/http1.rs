//! HTTP/1.1 connections to one node that are kept for the next request.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tidegate_engine::sync::lock;

use crate::links::connect::Connector;
use crate::links::tls::Protocol;

/// A connection without a request for so long is closed; nodes wait longer.
const IDLE: Duration = Duration::from_secs(60);
/// So many are kept by each I/O thread; more are closed after their request.
const MOST_KEPT: usize = 256;
/// Of more than so many those that were used least lately are closed sooner: each keeps what it needed for a large answer.
const FEW: usize = 32;
const IDLE_OF_MANY: Duration = Duration::from_secs(4);

/// So many bytes come of an answer that its client does not take; a node's head is no longer, either.
const MOST_AHEAD: usize = 64 << 10;

/// A connection, for one request at a time.
pub type RestLink = SendRequest<Full<Bytes>>;

/// Connections, and since when each is kept.
type Kept = Mutex<Vec<(RestLink, Instant)>>;

/// The kept connections of all I/O threads to one node.
#[derive(Debug)]
pub struct RestLinks {
    address: String,
    connector: Connector,
    lanes: Box<[Kept]>,
}

impl RestLinks {
    /// None yet.
    pub fn new(address: &str, lanes: usize, connector: Connector) -> RestLinks {
        let lanes = (0..lanes).map(|_| Mutex::default()).collect();
        RestLinks { address: address.to_owned(), connector, lanes }
    }

    /// A connection that was kept and is there still.
    pub async fn kept(&self, lane: usize) -> Option<RestLink> {
        loop {
            let (mut link, _) = lock(&self.lanes[lane]).pop()?;
            if link.is_ready() || link.ready().await.is_ok() {
                return Some(link);
            }
        }
    }

    /// A new one, or why there is none.
    pub async fn open(&self) -> Result<RestLink, String> {
        let socket = self.connector.connect(&self.address, Protocol::Rest).await?;
        let begun = http1::Builder::new().max_buf_size(MOST_AHEAD).handshake(TokioIo::new(socket)).await;
        let (link, connection) = begun.map_err(|why| format!("{}: {why}", self.address))?;
        // How it ends is seen by the request on it.
        tokio::spawn(async move { drop(connection.await) });
        Ok(link)
    }

    /// Keeps a connection whose answer has come in full.
    pub fn keep(&self, lane: usize, link: RestLink) {
        let mut kept = lock(&self.lanes[lane]);
        if kept.len() < MOST_KEPT && !link.is_closed() {
            kept.push((link, Instant::now()));
        }
    }

    /// Closes those that nobody has used for long.
    pub fn close_idle(&self, lane: usize, now: Instant) {
        let mut kept = lock(&self.lanes[lane]);
        // The last ones are used first.
        let mut beyond = kept.len().saturating_sub(FEW);
        kept.retain(|(link, since)| {
            let idle = if beyond > 0 { IDLE_OF_MANY } else { IDLE };
            beyond = beyond.saturating_sub(1);
            !link.is_closed() && now.saturating_duration_since(*since) <= idle
        });
    }
}
