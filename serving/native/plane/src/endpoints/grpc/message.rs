//! A message that has come in full: unpacked and handed to the service, by the I/O thread if it is small and aside if not.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::request;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::memory::{Reservation, Share};
use tokio::time::timeout_at;

use crate::aside::{Aside, LARGE, late};
use crate::connections::peer::Peer;
use crate::endpoints::body::counted;
use crate::endpoints::compression::{soon, too_large};
use crate::endpoints::grpc::encoding::{encoding_of, is_compressed, unpack};
use crate::endpoints::grpc::in_order::{InOrder, Place};
use crate::endpoints::grpc::reply::{FRAME_HEAD, GrpcReply};
use crate::endpoints::grpc::service::{GrpcCall, GrpcService, refuse};

/// A call whose message is there, as it was sent.
pub struct WholeCall {
    /// Path and metadata.
    pub head: request::Parts,
    /// The message in its frame.
    pub frame: Bytes,
    /// What the frame takes.
    pub memory: Option<Reservation>,
    /// When the last byte had come.
    pub received: Instant,
    /// When its answer is worth nothing any more.
    pub deadline: Instant,
    /// The way back.
    pub reply: GrpcReply,
}

/// A message without its frame, and what it takes beside it.
type Plain = (Bytes, Option<Reservation>);

impl WholeCall {
    /// Unpacks the message and has the service answer, now or when there is a thread for it.
    pub fn hand_over<S: GrpcService>(self, service: &Arc<S>, peer: &Peer, share: &Arc<Share>, order: &InOrder) {
        let limit = peer.limits.max_message_bytes();
        let here = match service.reads_more(self.head.uri.path()) {
            true => Ok(None),
            false => plain(&self.head, &self.frame, limit.min(LARGE), &mut soon(), share),
        };
        match here {
            Ok(Some(plain)) if !(order.is_busy() && self.keeps_order(&**service)) => self.call(plain, &**service),
            Ok(_) => {
                let place = self.keeps_order(&**service).then(|| order.place());
                let (service, aside, share) = (service.clone(), peer.aside.clone(), share.clone());
                tokio::spawn(self.call_aside(service, aside, limit, share, place));
            }
            Err(status) => refuse(&**service, self.reply, &status),
        }
    }

    fn keeps_order<S: GrpcService>(&self, service: &S) -> bool {
        let message = (self.frame[0] == 0).then(|| &self.frame[FRAME_HEAD..]);
        service.keeps_order(self.head.uri.path(), message)
    }

    async fn call_aside<S: GrpcService>(
        mut self,
        service: Arc<S>,
        aside: Arc<Aside>,
        limit: usize,
        share: Arc<Share>,
        place: Option<Place>,
    ) {
        // What comes out of compressed bytes may be as large as the limit.
        let bytes = if self.frame[0] == 0 { self.frame.len() } else { limit };
        let deadline = self.deadline;
        let turns = async {
            let own = match place {
                Some(place) => Some(timeout_at(deadline.into(), place.turn()).await.map_err(|_| late())?),
                None => None,
            };
            Ok((own, aside.turn_by(bytes, deadline).await?))
        };
        let turns: Result<_, Status> = tokio::select! {
            turns = turns => turns,
            () = self.reply.gone() => return service.count_unread(Code::Cancelled),
        };
        match turns {
            Ok((own, turn)) => turn.begin(move || {
                let reply = &mut self.reply;
                match plain(&self.head, &self.frame, limit, &mut || reply.is_gone(), &share) {
                    Ok(Some(plain)) => self.call(plain, &*service),
                    // Nobody is answered.
                    Ok(None) if reply.is_gone() => service.count_unread(Code::Cancelled),
                    Ok(None) => refuse(&*service, self.reply, &too_large(limit)),
                    Err(status) => refuse(&*service, self.reply, &status),
                }
                drop(own);
            }),
            Err(status) => refuse(&*service, self.reply, &status),
        }
    }

    fn call<S: GrpcService>(self, (message, inflated): Plain, service: &S) {
        let WholeCall { head, frame, memory, received, deadline, reply } = self;
        // Where it came packed, nobody needs that any more.
        drop(frame);
        let own = inflated.or(memory);
        let (message, mut own) = match own {
            Some(own) if service.stays(head.uri.path()) => (counted(message, own), None),
            own => (message, own),
        };
        // Once that returns the message is decoded, or else its memory taken over; a batch that keeps a part of it counts
        // that itself.
        service.call(GrpcCall { head, message, received, deadline, reply }, &mut own);
    }
}

/// The message, decompressed where the frame's first byte says so; none where it is larger than `most`, or not there before
/// somebody `gives_up`.
fn plain(
    head: &request::Parts,
    frame: &Bytes,
    most: usize,
    gives_up: &mut dyn FnMut() -> bool,
    share: &Arc<Share>,
) -> Result<Option<Plain>, Status> {
    let message = &frame[FRAME_HEAD..];
    if message.len() > most {
        return Ok(None);
    }
    if !is_compressed(frame[0])? {
        return Ok(Some((frame.slice(FRAME_HEAD..), None)));
    }
    let mut memory = share.reservation();
    let message = unpack(encoding_of(&head.headers), message, most, gives_up, &mut memory)?;
    Ok(message.map(|message| (message, Some(memory))))
}
