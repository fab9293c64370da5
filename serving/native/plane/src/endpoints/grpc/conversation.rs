//! A call whose messages are answered one by one, while the client may still send more: read and written apart from the
//! calls of one message.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use h2::{Reason, RecvStream, SendStream};
use http::request;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::memory::{Reservation, Share};
use tokio::time::timeout;

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
    memory: Reservation,
    largest: usize,
}

impl Messages {
    /// Of a call; what has come of them counts to this share.
    pub fn new(body: RecvStream, share: &Arc<Share>) -> Messages {
        Messages { body, so_far: BytesMut::new(), memory: share.reservation(), largest: LARGEST }
    }

    /// Takes messages of so many bytes.
    pub fn allow(&mut self, largest: usize) {
        self.largest = largest;
    }

    /// The next one; none once the client has sent all. Nothing is lost where this is given up.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
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

    /// A message that has come in full.
    fn take(&mut self) -> Result<Option<Bytes>, Status> {
        let Some(&[compressed, a, b, c, d]) = self.so_far.first_chunk::<FRAME_HEAD>() else { return Ok(None) };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if compressed != 0 {
            return Err(Status::new(
                Code::Unimplemented,
                "messages of this method cannot be compressed: send them plain",
            ));
        }
        let largest = self.largest;
        if length > largest {
            return Err(Status::exhausted(format!(
                "the message of {length} bytes is larger than the limit of {largest} bytes for this method"
            )));
        }
        if self.so_far.len() < FRAME_HEAD + length {
            return Ok(None);
        }
        self.so_far.advance(FRAME_HEAD);
        self.memory.shrink(FRAME_HEAD + length);
        Ok(Some(self.so_far.split_to(length).freeze()))
    }
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
