//! Requests of one I/O thread that wait for their answers, by slot.
//! The predict path puts them in; a finished batch, the deadline sweep or a refusal takes each out exactly once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use tokio::sync::oneshot;

use crate::embedded::EmbeddedReply;
use crate::gather::GatherPart;
use crate::grpc_reply::{GrpcReply, Tags};
use crate::head::Head;
use crate::json_request::Form;
use crate::metrics::Endpoint;
use crate::request_id::RequestId;
use crate::rest::{self, RestResponse};
use crate::status::Status;
use crate::version::ServedSignature;

/// The outputs that a client wants, and so the kind of its answer.
#[derive(Debug)]
pub enum Wanted {
    /// All, by name.
    All,
    /// These, by name.
    Some(Box<[usize]>),
    /// These, under the names that the client gave them.
    Fetches(Box<[(usize, Box<str>)]>),
    /// A classification or a regression.
    Head(Head),
}

/// The way back to a client.
#[derive(Debug)]
pub enum Reply {
    /// Over gRPC.
    Grpc(GrpcReply),
    /// Over REST, in the form of the request.
    Rest(oneshot::Sender<RestResponse>, Form),
    /// To a thread of the program that the plane lives in.
    Embedded(EmbeddedReply),
    /// Over gRPC, together with other tasks of the same call.
    Part(GatherPart),
}

impl Reply {
    /// Which endpoint it leads through.
    pub fn endpoint(&self) -> Endpoint {
        match self {
            Reply::Grpc(_) | Reply::Part(_) => Endpoint::Grpc,
            Reply::Rest(..) => Endpoint::Rest,
            Reply::Embedded(_) => Endpoint::Embedded,
        }
    }

    /// Whether nobody waits any more.
    pub fn is_gone(&mut self) -> bool {
        match self {
            Reply::Grpc(reply) => reply.is_gone(),
            Reply::Rest(sender, _) => sender.is_closed(),
            Reply::Embedded(reply) => reply.is_gone(),
            Reply::Part(part) => part.is_gone(),
        }
    }

    /// Answers with an error.
    pub fn fail(self, status: &Status, tags: Tags<'_>) {
        match self {
            Reply::Grpc(reply) => reply.fail(status, tags),
            Reply::Rest(sender, _) => drop(sender.send(rest::failure(status, tags))),
            Reply::Embedded(reply) => reply.fail(status),
            Reply::Part(part) => part.fail(status, tags),
        }
    }
}

/// A request that waits.
#[derive(Debug)]
pub struct Pending {
    /// The way back.
    pub reply: Reply,
    /// Its identity.
    pub id: RequestId,
    /// When its last byte had come.
    pub received: Instant,
    /// When it is answered as too late.
    pub deadline: Instant,
    /// Where it waits or runs.
    pub served: Arc<ServedSignature>,
    /// The outputs that the client wants.
    pub wanted: Wanted,
}

impl Pending {
    /// The version's number as a header.
    pub fn version_header(&self) -> HeaderValue {
        HeaderValue::from(self.served.number)
    }
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    pending: Option<Pending>,
}

/// All waiting requests of one I/O thread.
#[derive(Debug, Default)]
pub struct Inflight {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// Requests younger than this are not asked whether their client has gone.
const SETTLED: Duration = Duration::from_millis(3);

impl Inflight {
    /// Puts a request in; the key takes it out once.
    pub fn insert(&mut self, pending: Pending) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.pending = Some(pending);
        u64::from(slot.generation) << 32 | u64::from(index)
    }

    /// Takes a request out, unless it was taken before.
    pub fn take(&mut self, key: u64) -> Option<Pending> {
        let index = key as u32;
        let slot = self.slots.get_mut(index as usize)?;
        if u64::from(slot.generation) != key >> 32 {
            return None;
        }
        let pending = slot.pending.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        Some(pending)
    }

    /// Number of waiting requests.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out those that are too late, and those whose client has gone.
    pub fn sweep(&mut self, now: Instant) -> Swept {
        let mut swept = Swept::default();
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            let Some(pending) = &mut slot.pending else { continue };
            let late = pending.deadline <= now;
            if !late && (now.saturating_duration_since(pending.received) < SETTLED || !pending.reply.is_gone()) {
                continue;
            }
            let key = u64::from(slot.generation) << 32 | index as u64;
            if let Some(pending) = self.take(key) {
                let list = if late { &mut swept.late } else { &mut swept.gone };
                list.push((key, pending));
            }
        }
        swept
    }
}

/// What a sweep took out.
#[derive(Debug, Default)]
pub struct Swept {
    /// To be answered DEADLINE_EXCEEDED.
    pub late: Vec<(u64, Pending)>,
    /// Nobody waits for them.
    pub gone: Vec<(u64, Pending)>,
}
