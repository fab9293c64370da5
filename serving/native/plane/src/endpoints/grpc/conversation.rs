//! A call whose messages are answered one by one, while the client may still send more: read and written apart from the
//! calls of one message.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, request};
use tidegate_codec::status::{Code, Status};
use tidegate_engine::memory::{Reservation, Share};
use tokio::time::timeout;

use crate::aside::{Aside, LARGE};
use crate::connections::peer::Peer;
use crate::endpoints::body::counted;
use crate::endpoints::compression::{SOON, too_large};
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
    body: RecvStream,
    so_far: BytesMut,
    /// What the bytes take that have come.
    memory: Reservation,
    largest: usize,
    /// How messages are compressed that say so.
    encoding: String,
    /// A compressed message that has come in full.
    packed: Option<Bytes>,
    aside: Arc<Aside>,
    /// How long a large message waits to be decompressed.
    patience: Duration,
}

impl Messages {
    /// Of a call with this metadata; what has come of them counts to this share.
    pub fn new(body: RecvStream, headers: &HeaderMap, peer: &Peer, share: &Arc<Share>) -> Messages {
        Messages {
            body,
            so_far: BytesMut::new(),
            memory: share.reservation(),
            largest: LARGEST,
            encoding: encoding_of(headers).to_owned(),
            packed: None,
            aside: peer.aside.clone(),
            patience: peer.limits.request_timeout(),
        }
    }

    /// Takes messages of so many bytes.
    pub fn allow(&mut self, largest: usize) {
        self.largest = largest;
    }

    /// The next one, decompressed; none once the client has sent all. Nothing is lost where this is given up.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(packed) = self.packed.clone() {
                let plain = self.inflate(&packed).await;
                self.packed = None;
                self.memory.shrink(packed.len());
                return plain.map(Some);
            }
            if let Some((compressed, message)) = self.take()? {
                if !compressed {
                    self.memory.shrink(message.len());
                    return Ok(Some(message));
                }
                self.packed = Some(message);
                continue;
            }
            match poll_fn(|context| self.body.poll_data(context)).await {
                Some(Ok(data)) => {
                    self.memory.grow(data.len(), self.so_far.len() + data.len())?;
                    self.so_far.extend_from_slice(&data);
                    // The client may send more once what it sent is counted.
                    let _ = self.body.flow_control().release_capacity(data.len());
                }
                None if self.so_far.is_empty() => return Ok(None),
                None => return Err(Status::invalid("the call ended in the middle of a message")),
                Some(Err(_)) => return Err(Status::new(Code::Cancelled, "the client has gone")),
            }
        }
    }

    /// A message that has come in full, and whether it is compressed. It counts until whoever takes it says otherwise.
    fn take(&mut self) -> Result<Option<(bool, Bytes)>, Status> {
        let Some(&[first, a, b, c, d]) = self.so_far.first_chunk::<FRAME_HEAD>() else { return Ok(None) };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let (largest, compressed) = (self.largest, is_compressed(first)?);
        if length > largest {
            return Err(Status::exhausted(format!(
                "the message of {length} bytes is larger than the limit of {largest} bytes for this method"
            )));
        }
        if self.so_far.len() < FRAME_HEAD + length {
            return Ok(None);
        }
        self.so_far.advance(FRAME_HEAD);
        self.memory.shrink(FRAME_HEAD);
        Ok(Some((compressed, self.so_far.split_to(length).freeze())))
    }

    /// The plain message, which counts for as long as it is there; what may be large or take long is decompressed aside.
    async fn inflate(&self, packed: &Bytes) -> Result<Bytes, Status> {
        let (limit, share) = (self.largest, self.memory.share());
        if packed.len() <= LARGE
            && let Some(plain) = plain(&self.encoding, packed, limit.min(LARGE), Some(SOON), &share)?
        {
            return Ok(plain);
        }
        let (encoding, packed) = (self.encoding.clone(), packed.clone());
        let work = move || plain(&encoding, &packed, limit, None, &share)?.ok_or_else(|| too_large(limit));
        self.aside.run(limit, Instant::now() + self.patience, work).await?
    }
}

fn plain(
    encoding: &str,
    packed: &[u8],
    most: usize,
    within: Option<Duration>,
    share: &Arc<Share>,
) -> Result<Option<Bytes>, Status> {
    let mut memory = share.reservation();
    let inflated = unpack(encoding, packed, most, within, &mut memory)?;
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
