//! HTTP/2 connections to one node: opened when they are needed, shared by many calls, closed when nobody uses them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Ping, PingPong};
use http::uri::{Authority, Scheme};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use crate::links::connect::{Connector, Links};
use crate::links::tls::Inside;

/// A connection without a call for so long is closed; nodes wait longer.
const IDLE: Duration = Duration::from_secs(60);
/// What is kept of one answer that its client does not take, in bytes, and of all answers of a connection: the latter does not
/// hold back others for those that are not taken.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 30;

struct Link {
    sender: SendRequest<Bytes>,
    used: Instant,
}

#[derive(Default)]
struct LaneLinks {
    links: Box<[Mutex<Option<Link>>]>,
    next: AtomicUsize,
}

/// The connections of all I/O threads to one node.
pub struct GrpcLinks {
    address: String,
    /// What requests to it name as their host.
    pub authority: Authority,
    /// And as their scheme.
    pub scheme: Scheme,
    connector: Connector,
    keepalive: Duration,
    lanes: Box<[LaneLinks]>,
}

impl std::fmt::Debug for GrpcLinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GrpcLinks").field("address", &self.address).finish_non_exhaustive()
    }
}

impl GrpcLinks {
    /// None open yet. None at all where the address can be none.
    pub fn new(address: &str, links: &Links) -> Option<GrpcLinks> {
        let authority = address.parse::<Authority>().ok().filter(|authority| authority.port_u16().is_some())?;
        let lane = |_| LaneLinks {
            links: (0..links.connections).map(|_| Mutex::default()).collect(),
            next: AtomicUsize::new(0),
        };
        let connector = links.connector.clone();
        let scheme = if connector.is_tls() { Scheme::HTTPS } else { Scheme::HTTP };
        let lanes = (0..links.lanes).map(lane).collect();
        let (address, keepalive) = (address.to_owned(), links.keepalive);
        Some(GrpcLinks { address, authority, scheme, connector, keepalive, lanes })
    }

    /// A connection that takes a call now, or why there is none. All that come while one is opened wait for it together.
    pub async fn ready(&self, lane: usize) -> Result<SendRequest<Bytes>, String> {
        let lane = &self.lanes[lane];
        let next = lane.next.fetch_add(1, Ordering::Relaxed) % lane.links.len();
        let mut link = lane.links[next].lock().await;
        if let Some(open) = link.as_mut()
            && let Ok(sender) = open.sender.clone().ready().await
        {
            open.used = Instant::now();
            return Ok(sender);
        }
        // A connection that has ended took nothing of this call.
        *link = None;
        let sender = self.open().await?;
        *link = Some(Link { sender: sender.clone(), used: Instant::now() });
        Ok(sender)
    }

    async fn open(&self) -> Result<SendRequest<Bytes>, String> {
        let socket = self.connector.connect(&self.address, Inside::Grpc).await?;
        let mut builder = h2::client::Builder::new();
        builder
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(64 << 10)
            .enable_push(false);
        let begun = builder.handshake::<_, Bytes>(socket).await;
        let (sender, mut connection) = begun.map_err(|why| format!("{}: {why}", self.address))?;
        let (pings, keepalive) = (connection.ping_pong(), self.keepalive);
        // How it ends is seen by the calls on it.
        tokio::spawn(async move {
            tokio::select! {
                _ = connection => {}
                () = silent(pings, keepalive) => {}
            }
        });
        sender.ready().await.map_err(|why| format!("{}: {why}", self.address))
    }

    /// Closes connections that nobody has used for long; calls on them end first.
    pub fn close_idle(&self, lane: usize, now: Instant) {
        for link in &self.lanes[lane].links {
            if let Ok(mut link) = link.try_lock()
                && link.as_ref().is_some_and(|open| now.saturating_duration_since(open.used) > IDLE)
            {
                *link = None;
            }
        }
    }
}

/// Waits until the node does not say in time that it lives, as one that is stopped or cut off; a busy one does.
async fn silent(pings: Option<PingPong>, keepalive: Duration) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        sleep(keepalive).await;
        if !matches!(timeout(keepalive, pings.ping(Ping::opaque())).await, Ok(Ok(_))) {
            return;
        }
    }
}
