//! A call whose messages are answered one by one, while the client may still send more: read and written apart from the
//! calls of one message.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use h2::{FlowControl, Reason, RecvStream, SendStream};
use http::{HeaderMap, request};
use tidegate_codec::status::{Code, Status};
use tidegate_engine::memory::{Reservation, Share};
use tidegate_engine::sync::lock;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::aside::{Aside, LARGE};
use crate::connections::lifeline::Lifeline;
use crate::connections::peer::Peer;
use crate::endpoints::body::counted;
use crate::endpoints::compression::{soon, too_large};
use crate::endpoints::grpc::encoding::{encoding_of, is_compressed, unpack};
use crate::endpoints::grpc::reply::{FRAME_HEAD, GrpcReply};

/// The largest message of such a call in bytes, where nothing else is said.
pub const LARGEST: usize = 16 << 10;

/// A call of many messages, none of which has come.
pub struct Conversation {
    /// Path and metadata.
    pub head: request::Parts,
    /// What the client sends.
    pub messages: Messages,
    /// When the call is over, whoever speaks: none where the client has set no deadline.
    pub deadline: Option<Instant>,
    /// How long the client's next message is waited for.
    pub patience: Duration,
    /// The way back.
    pub reply: GrpcReply,
}

/// The messages that a client sends.
pub struct Messages {
    came: Arc<Came>,
    /// Gathers what comes.
    gathering: JoinHandle<()>,
    room: FlowControl,
    share: Arc<Share>,
    largest: usize,
    /// How messages are compressed that say so.
    encoding: String,
    aside: Arc<Aside>,
    /// How long a large message waits to be decompressed.
    patience: Duration,
}

/// What has come of them. It is taken out of the connection and counted as it comes, whether anybody waits for it or not:
/// a client may send as much as it has room for while nobody does.
struct Came {
    state: Mutex<State>,
    more: Notify,
}

struct State {
    so_far: BytesMut,
    /// A compressed message that has come in full.
    packed: Option<Bytes>,
    /// What the bytes take that have come.
    memory: Reservation,
    /// Bytes for which the client has no new room yet.
    unreleased: usize,
    /// How it ended, once nothing more comes.
    end: Option<Result<(), Status>>,
}

impl Came {
    /// Gathers all that comes. Where there is no memory for more, the rest is not kept.
    async fn gather(self: Arc<Came>, mut body: RecvStream, lifeline: Arc<Lifeline>) {
        let end = loop {
            match poll_fn(|context| body.poll_data(context)).await {
                Some(Ok(data)) => {
                    lifeline.note_came(data.len());
                    if let Err(status) = self.add(&data) {
                        break Err(status);
                    }
                }
                None => break Ok(()),
                Some(Err(_)) => break Err(Status::new(Code::Cancelled, "the client has gone")),
            }
        };
        lock(&self.state).end = Some(end);
        self.more.notify_one();
    }

    fn add(&self, data: &Bytes) -> Result<(), Status> {
        let mut state = lock(&self.state);
        let whole = state.so_far.len() + data.len();
        state.memory.grow(data.len(), whole)?;
        state.so_far.extend_from_slice(data);
        state.unreleased += data.len();
        self.more.notify_one();
        Ok(())
    }
}

/// Whether a message is on its way, to be asked while the next one is waited for.
pub struct Coming(Arc<Came>);

impl Coming {
    /// Whether a part of one has come, or one that is not unpacked.
    pub fn is_any(&self) -> bool {
        let state = lock(&self.0.state);
        !state.so_far.is_empty() || state.packed.is_some()
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.gathering.abort();
    }
}

impl Messages {
    /// Of a call with this metadata; what has come of them counts to this share.
    pub fn new(mut body: RecvStream, headers: &HeaderMap, peer: &Peer, share: &Arc<Share>) -> Messages {
        let (memory, room) = (share.reservation(), body.flow_control().clone());
        let state = Mutex::new(State { so_far: BytesMut::new(), packed: None, memory, unreleased: 0, end: None });
        let came = Arc::new(Came { state, more: Notify::new() });
        Messages {
            gathering: tokio::spawn(came.clone().gather(body, peer.lifeline.clone())),
            came,
            room,
            share: share.clone(),
            largest: LARGEST,
            encoding: encoding_of(headers).to_owned(),
            aside: peer.aside.clone(),
            patience: peer.limits.request_timeout(),
        }
    }

    /// Tells whether a message is on its way.
    pub fn coming(&self) -> Coming {
        Coming(self.came.clone())
    }

    /// Takes messages of so many bytes.
    pub fn allow(&mut self, largest: usize) {
        self.largest = largest;
    }

    /// The next one, decompressed; none once the client has sent all. Nothing is lost where this is given up.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            let packed = lock(&self.came.state).packed.clone();
            if let Some(packed) = packed {
                let plain = self.inflate(&packed).await;
                let mut state = lock(&self.came.state);
                state.packed = None;
                state.memory.shrink(packed.len());
                return plain.map(Some);
            }
            if let Some((compressed, message)) = self.take()? {
                if !compressed {
                    lock(&self.came.state).memory.shrink(message.len());
                    return Ok(Some(message));
                }
                lock(&self.came.state).packed = Some(message);
                continue;
            }
            if let Some(end) = self.make_room() {
                return end.map(|()| None);
            }
            self.came.more.notified().await;
        }
    }

    /// Lets the client send more, since no message has come in full; or how it ended where nothing more comes.
    fn make_room(&mut self) -> Option<Result<(), Status>> {
        let (bytes, end) = {
            let mut state = lock(&self.came.state);
            let in_the_middle = || Status::invalid("the call ended in the middle of a message");
            let whole = state.so_far.is_empty();
            let end = state.end.clone().map(|end| end.and_then(|()| if whole { Ok(()) } else { Err(in_the_middle()) }));
            (std::mem::take(&mut state.unreleased), end)
        };
        let _ = self.room.release_capacity(bytes);
        end
    }

    /// A message that has come in full, and whether it is compressed. It counts until whoever takes it says otherwise.
    fn take(&mut self) -> Result<Option<(bool, Bytes)>, Status> {
        let mut state = lock(&self.came.state);
        let Some(&[first, a, b, c, d]) = state.so_far.first_chunk::<FRAME_HEAD>() else { return Ok(None) };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let (largest, compressed) = (self.largest, is_compressed(first)?);
        if length > largest {
            return Err(Status::exhausted(format!(
                "the message of {length} bytes is larger than the limit of {largest} bytes for this method"
            )));
        }
        if state.so_far.len() < FRAME_HEAD + length {
            return Ok(None);
        }
        state.so_far.advance(FRAME_HEAD);
        state.memory.shrink(FRAME_HEAD);
        Ok(Some((compressed, state.so_far.split_to(length).freeze())))
    }

    /// The plain message, which counts for as long as it is there; what may be large or take long is decompressed aside.
    async fn inflate(&self, packed: &Bytes) -> Result<Bytes, Status> {
        let (limit, share) = (self.largest, self.share.clone());
        if packed.len() <= LARGE
            && let Some(plain) = plain(&self.encoding, packed, limit.min(LARGE), &mut soon(), &share)?
        {
            return Ok(plain);
        }
        let (encoding, packed) = (self.encoding.clone(), packed.clone());
        let work = move |gives_up: &mut dyn FnMut() -> bool| {
            plain(&encoding, &packed, limit, gives_up, &share)?.ok_or_else(|| too_large(limit))
        };
        self.aside.run_while_awaited(limit, Instant::now() + self.patience, work).await?
    }
}

fn plain(
    encoding: &str,
    packed: &[u8],
    most: usize,
    gives_up: &mut dyn FnMut() -> bool,
    share: &Arc<Share>,
) -> Result<Option<Bytes>, Status> {
    let mut memory = share.reservation();
    let inflated = unpack(encoding, packed, most, gives_up, &mut memory)?;
    Ok(inflated.map(|message| counted(message, memory)))
}

/// Sends a framed message as fast as the client takes it. False where it takes nothing for so long, or has gone.
pub async fn send(stream: &mut SendStream<Bytes>, mut frame: Bytes, patience: Duration) -> bool {
    loop {
        stream.reserve_capacity(frame.len());
        let room = stream.capacity().min(frame.len());
        if room > 0 && stream.send_data(frame.split_to(room), false).is_err() {
            return false;
        }
        if frame.is_empty() {
            return true;
        }
        if !matches!(timeout(patience, poll_fn(|context| stream.poll_capacity(context))).await, Ok(Some(Ok(_)))) {
            stream.send_reset(Reason::CANCEL);
            return false;
        }
    }
}
