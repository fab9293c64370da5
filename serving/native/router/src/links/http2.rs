//! HTTP/2 connections to one node: opened when they are needed, shared by many calls, closed when nobody uses them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Ping, PingPong};
use http::uri::{Authority, Scheme};
use tidegate_engine::sync::lock;
use tokio::sync::{Mutex as Turn, oneshot};
use tokio::time::{sleep, timeout};

use crate::links::connect::{CONNECTING, Connector, Links};
use crate::links::tls::Protocol;

/// A connection without a call for so long is closed; nodes wait longer.
const IDLE: Duration = Duration::from_secs(60);
/// What comes of one answer whose client does not take it, in bytes, and of all answers of a connection: the latter does not
/// hold back others for those that are not taken.
pub const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = 1 << 30;

/// Where each connection has as many calls as the node takes, which answers that no client takes bring about, more are
/// opened by each I/O thread: so many at most.
const MOST: usize = 64;
/// A node takes so many calls over a connection, until it has said how many.
const ASSUMED: usize = 1024;

struct Link {
    sender: SendRequest<Bytes>,
    used: Instant,
}

/// A connection, or when and why there is none.
#[derive(Default)]
struct Opened {
    link: Option<Link>,
    failed: Option<(Instant, String)>,
}

/// A connection, once it is needed, and the calls on it.
struct Slot {
    opened: Turn<Opened>,
    calls: AtomicUsize,
    /// The most at a time since it was opened.
    peak: AtomicUsize,
    /// How many the node takes over each connection.
    room: Arc<AtomicUsize>,
}

/// The place of one call on a connection.
pub struct Place(Arc<Slot>);

/// Why a node cannot be asked.
pub enum NoPlace {
    /// It was not reached.
    Unreachable(String),
    /// It has as many calls as it takes.
    Full(String),
}

struct LaneLinks {
    slots: Mutex<Vec<Arc<Slot>>>,
    /// For calls of connections that ask for little, by turns.
    little: Box<[Arc<Slot>]>,
    room: Arc<AtomicUsize>,
    next: AtomicUsize,
}

impl Slot {
    fn new(room: &Arc<AtomicUsize>) -> Arc<Slot> {
        let (calls, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Slot { opened: Turn::default(), calls, peak, room: room.clone() })
    }

    fn enter(self: Arc<Slot>) -> Place {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        self.peak.fetch_max(calls, Ordering::Relaxed);
        Place(self)
    }

    fn has_room(&self) -> bool {
        self.calls.load(Ordering::Relaxed) < self.room.load(Ordering::Relaxed)
    }

    /// Whether more calls are on it than the node takes, which was not known when they got their places.
    fn is_beyond(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > self.room.load(Ordering::Relaxed)
    }

    /// Whether it had about as many calls as the node takes: the memory for them comes back with its end alone.
    fn was_crowded(&self) -> bool {
        2 * self.peak.load(Ordering::Relaxed) >= self.room.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let slot = &self.0;
        if slot.calls.fetch_sub(1, Ordering::Relaxed) == 1
            && slot.was_crowded()
            && let Ok(mut opened) = slot.opened.try_lock()
        {
            opened.link = None;
            slot.peak.store(0, Ordering::Relaxed);
        }
    }
}

impl LaneLinks {
    fn new(connections: usize) -> LaneLinks {
        let room = Arc::new(AtomicUsize::new(ASSUMED));
        let slots = (0..connections).map(|_| Slot::new(&room)).collect();
        let little = (0..connections).map(|_| Slot::new(&room)).collect();
        LaneLinks { slots: Mutex::new(slots), little, room, next: AtomicUsize::new(0) }
    }

    /// A place on one of the connections for those that ask for little, or of the first so many others, by turns, or on a
    /// further one where these have none.
    fn place(&self, first: usize, little: bool) -> Option<Place> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let mut for_little = (0..first).map(|at| &self.little[(next + at) % first]);
        if little && let Some(slot) = for_little.find(|slot| slot.has_room()) {
            return Some(slot.clone().enter());
        }
        let mut slots = lock(&self.slots);
        let by_turns = (0..first).map(|at| (next + at) % first).chain(first..slots.len());
        let found = by_turns.map(|at| &slots[at]).find(|slot| slot.has_room()).cloned();
        let slot = match found {
            Some(slot) => slot,
            None if slots.len() < MOST.max(first) => {
                let slot = Slot::new(&self.room);
                slots.push(slot.clone());
                slot
            }
            None => return None,
        };
        Some(slot.enter())
    }

    fn all(&self) -> Vec<Arc<Slot>> {
        lock(&self.slots).iter().chain(&self.little).cloned().collect()
    }
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
    /// So many connections are used by turns by each I/O thread.
    connections: usize,
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
        let lane = |_| LaneLinks::new(links.connections);
        let connector = links.connector.clone();
        let scheme = if connector.is_tls() { Scheme::HTTPS } else { Scheme::HTTP };
        let lanes = (0..links.lanes).map(lane).collect();
        let (address, keepalive, connections) = (address.to_owned(), links.keepalive, links.connections);
        Some(GrpcLinks { address, authority, scheme, connector, keepalive, connections, lanes })
    }

    /// A connection that takes a call now, with the call's place on it, or why there is none. All that come while one is
    /// opened wait for it together. A node has each of its connections to keep nobody from a model who asks for less: so who
    /// asks for `little` has connections apart from those who ask for much.
    pub async fn ready(&self, lane: usize, little: bool) -> Result<(SendRequest<Bytes>, Place), NoPlace> {
        let (lane, came) = (&self.lanes[lane], Instant::now());
        loop {
            let full =
                || NoPlace::Full(format!("{} has as many calls as it takes over {MOST} connections", self.address));
            let place = lane.place(self.connections, little).ok_or_else(full)?;
            let mut opened = place.0.opened.lock().await;
            let sender = self.sender(&mut opened, &lane.room, came).await.map_err(NoPlace::Unreachable)?;
            drop(opened);
            if !place.0.is_beyond() {
                return Ok((sender, place));
            }
        }
    }

    /// That of a connection which is there, or of a new one; or why none could be opened since the call came.
    async fn sender(
        &self,
        opened: &mut Opened,
        room: &AtomicUsize,
        came: Instant,
    ) -> Result<SendRequest<Bytes>, String> {
        if let Some(link) = opened.link.as_mut()
            && let Ok(sender) = link.sender.clone().ready().await
        {
            link.used = Instant::now();
            return Ok(sender);
        }
        // A connection that has ended took nothing of this call.
        opened.link = None;
        if let Some((_, why)) = opened.failed.as_ref().filter(|(when, _)| *when >= came) {
            return Err(why.clone());
        }
        let begun = timeout(CONNECTING, self.open()).await;
        let begun = begun.unwrap_or_else(|_| Err(format!("{}: no connection within {CONNECTING:?}", self.address)));
        match begun {
            Ok(sender) => {
                room.store(sender.current_max_send_streams(), Ordering::Relaxed);
                opened.link = Some(Link { sender: sender.clone(), used: Instant::now() });
                Ok(sender)
            }
            Err(why) => {
                opened.failed = Some((Instant::now(), why.clone()));
                Err(why)
            }
        }
    }

    /// A new connection on which the node has said what it takes.
    async fn open(&self) -> Result<SendRequest<Bytes>, String> {
        let socket = self.connector.connect(&self.address, Protocol::Grpc).await?;
        let mut builder = h2::client::Builder::new();
        builder
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(64 << 10)
            // A client that gives its calls up quickly must not end the connection for others; a node is no attacker.
            .max_concurrent_reset_streams(ASSUMED)
            .max_local_error_reset_streams(None)
            .enable_push(false);
        let begun = builder.handshake::<_, Bytes>(socket).await;
        let (sender, mut connection) = begun.map_err(|why| format!("{}: {why}", self.address))?;
        let (pings, keepalive) = (connection.ping_pong(), self.keepalive);
        let (tell, said) = oneshot::channel();
        // How it ends is seen by the calls on it.
        tokio::spawn(async move {
            tokio::select! {
                _ = connection => {}
                () = silent(pings, keepalive, tell) => {}
            }
        });
        said.await.map_err(|_| format!("{}: it does not speak HTTP/2", self.address))?;
        sender.ready().await.map_err(|why| format!("{}: {why}", self.address))
    }

    /// Closes connections that nobody has used for long; calls on them end first.
    pub fn close_idle(&self, lane: usize, now: Instant) {
        for slot in self.lanes[lane].all() {
            if let Ok(mut opened) = slot.opened.try_lock()
                && opened.link.as_ref().is_some_and(|link| now.saturating_duration_since(link.used) > IDLE)
            {
                opened.link = None;
            }
        }
    }
}

/// Waits until the node does not say in time that it lives, as one that is stopped or cut off; a busy one does. Its first word
/// comes behind its settings, which `said` is told.
async fn silent(pings: Option<PingPong>, keepalive: Duration, said: oneshot::Sender<()>) {
    let Some(mut pings) = pings else { return };
    let mut said = Some(said);
    while matches!(timeout(keepalive, pings.ping(Ping::opaque())).await, Ok(Ok(_))) {
        said.take().map(|said| said.send(()));
        sleep(keepalive).await;
    }
}
