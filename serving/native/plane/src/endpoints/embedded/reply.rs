//! The way back to a caller that predicts in process, and the slot where it waits or is told that it need not any more.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::Tensor;
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::request::{Reply, Rows, Tags};
use tidegate_engine::sync::lock;

use crate::endpoints::stream::whole;

/// What a request is answered with: the outputs in the signature's order, or why there are none.
pub type EmbeddedAnswer = Result<Vec<Tensor>, Status>;

/// Who is told that answers have come, instead of waiting for them.
pub trait Arrivals: Send + Sync + fmt::Debug {
    /// The answer to the request with this ticket is there. Called once, by the thread that left it.
    fn arrived(&self, ticket: u64);
}

/// Whom to tell of an answer, and by which number it knows the request.
#[derive(Clone, Debug)]
pub struct Told {
    /// Who is told.
    pub arrivals: Arc<dyn Arrivals>,
    /// The request's number.
    pub ticket: u64,
}

/// Where one answer is waited for.
#[derive(Debug, Default)]
pub struct AnswerSlot {
    answer: Mutex<Option<EmbeddedAnswer>>,
    arrived: Condvar,
    gone: AtomicBool,
    told: Option<Told>,
}

impl AnswerSlot {
    /// A slot whose answer somebody is told of.
    pub fn telling(told: Told) -> AnswerSlot {
        AnswerSlot { told: Some(told), ..AnswerSlot::default() }
    }

    /// Whether an answer has come and was not taken.
    pub fn is_filled(&self) -> bool {
        lock(&self.answer).is_some()
    }

    /// The answer, once it is there or this moment has passed.
    pub fn wait_until(&self, moment: Instant) -> Option<EmbeddedAnswer> {
        let mut answer = lock(&self.answer);
        loop {
            let left = moment.saturating_duration_since(Instant::now());
            if answer.is_some() || left == Duration::ZERO {
                return answer.take();
            }
            answer = self.arrived.wait_timeout(answer, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The caller waits no longer.
    pub fn abandon(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

/// The way back to a calling thread.
#[derive(Debug)]
pub struct EmbeddedReply(pub Arc<AnswerSlot>);

impl EmbeddedReply {
    fn put(&self, answer: EmbeddedAnswer) {
        let slot = &*self.0;
        let first = {
            let mut found = lock(&slot.answer);
            let first = found.is_none();
            found.get_or_insert(answer);
            first
        };
        slot.arrived.notify_one();
        if let (true, Some(told)) = (first, &slot.told) {
            told.arrivals.arrived(told.ticket);
        }
    }
}

impl Reply for EmbeddedReply {
    fn endpoint(&self) -> Endpoint {
        Endpoint::Embedded
    }

    fn is_gone(&mut self, _: bool) -> bool {
        self.0.gone.load(Ordering::Relaxed)
    }

    fn succeed(self, rows: &Rows<'_>, _: Tags<'_>) -> Code {
        self.put(Ok(whole(rows)));
        Code::Ok
    }

    fn fail(self, status: &Status, _: Tags<'_>) {
        self.put(Err(status.clone()));
    }
}

impl Drop for EmbeddedReply {
    fn drop(&mut self) {
        self.put(Err(Status::new(Code::Unavailable, "the server stopped before the request was answered")));
    }
}
