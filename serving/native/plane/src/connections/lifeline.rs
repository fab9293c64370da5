//! What is known of one connection while it lives: whether its peer is heard, takes its answers, and has calls open.
//! Its socket and its endpoint note it as they go along; whoever tends connections reads it and gives orders.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use http::request;
use tidegate_codec::status::Status;
use tidegate_engine::memory::{Memory, Reservation, Share};
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::sync::lock;

use crate::connections::io_time::{IoTime, TimeTaken};
use crate::connections::shared_answers::SharedAnswers;

/// Ask the peer whether it is there.
pub const PING: u8 = 1;
/// Begin no further calls, and end once those that are open are answered.
pub const LEAVE: u8 = 2;
/// End now.
pub const CLOSE: u8 = 4;
/// The peer does not speak HTTP/2: say so and end.
pub const PROTOCOL_ERROR: u8 = 8;
/// The peer sends what costs it less than whoever reads it: say so and end.
pub const CALM_DOWN: u8 = 16;

/// What it means where a peer over HTTP/1 sends no more: the request is cut short, unless the rest has come and is still to be
/// read; it may wait for its answer, having closed its side alone; or it counts as gone.
const CUT_SHORT: u8 = 0;
const MAY_WAIT: u8 = 1;
const GONE: u8 = 2;

/// What an open call takes in bytes beside its head and its message, and a field of its head beside name and value.
const CALL: usize = 4 << 10;
const FIELD: usize = 104;

/// A connection without more calls open may use what is kept for small requests, for calls that take no more bytes.
const FEW_CALLS: usize = 4;
const LITTLE: usize = 8 << 10;

/// One connection.
#[derive(Debug)]
pub struct Lifeline {
    /// Where it came in.
    pub endpoint: Endpoint,
    /// When.
    pub opened: Instant,
    /// Whether it is one too many, and may only ask for the server's health.
    pub reserved: bool,
    /// Bytes came since this was last looked at.
    pub(crate) heard: AtomicBool,
    /// Bytes came since a request began.
    pub(crate) fresh: AtomicBool,
    /// The number of the head or frame of which only a part has come; 0 where there is none.
    pub(crate) partial: AtomicU64,
    /// The largest chunk of the present body that was announced, in bytes.
    pub(crate) largest_chunk: AtomicU64,
    /// Messages that come now of which much has come, or is to come.
    large: AtomicUsize,
    /// The number of the write that the peer takes nothing of; 0 where there is none.
    pub(crate) blocked: AtomicU64,
    writes: AtomicU64,
    /// Calls that began, and messages of theirs that came in full after others.
    calls: AtomicU64,
    /// Bytes of requests that came.
    came: AtomicUsize,
    open_calls: AtomicUsize,
    /// Those over gRPC that no answer is due to: their requests have not come, or they wait for news.
    undue: AtomicUsize,
    /// Rows of its requests that wait or run.
    pub(crate) rows_under_way: AtomicUsize,
    completed: AtomicBool,
    /// The peer sends no more.
    half_closed: AtomicBool,
    /// What that means for the call that began last.
    silence: AtomicU8,
    orders: AtomicU8,
    task: Mutex<Option<Waker>>,
    memory: OnceLock<Arc<Share>>,
    shared_answers: SharedAnswers,
}

impl Lifeline {
    /// Of a connection that was just opened: its first head or frame has to come yet.
    pub fn new(endpoint: Endpoint, reserved: bool) -> Arc<Lifeline> {
        Arc::new(Lifeline {
            endpoint,
            opened: Instant::now(),
            reserved,
            heard: AtomicBool::new(false),
            fresh: AtomicBool::new(false),
            partial: AtomicU64::new(1),
            largest_chunk: AtomicU64::new(0),
            large: AtomicUsize::new(0),
            blocked: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            came: AtomicUsize::new(0),
            open_calls: AtomicUsize::new(0),
            undue: AtomicUsize::new(0),
            rows_under_way: AtomicUsize::new(0),
            completed: AtomicBool::new(false),
            half_closed: AtomicBool::new(false),
            silence: AtomicU8::new(CUT_SHORT),
            orders: AtomicU8::new(0),
            task: Mutex::new(None),
            memory: OnceLock::new(),
            shared_answers: SharedAnswers::default(),
        })
    }

    /// A call begins; it is open until the token is dropped.
    pub fn begin_call(self: &Arc<Lifeline>) -> OpenCall {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.silence.store(CUT_SHORT, Ordering::Relaxed);
        self.open_calls.fetch_add(1, Ordering::Relaxed);
        OpenCall { lifeline: self.clone(), held: None, is_due: true }
    }

    /// What its requests may hold together.
    pub fn share(&self, memory: &Arc<Memory>) -> &Arc<Share> {
        self.memory.get_or_init(|| memory.of_connection())
    }

    /// The largest chunk of the present body that was announced, in bytes, whether it has come or not.
    pub fn largest_chunk(&self) -> u64 {
        self.largest_chunk.load(Ordering::Relaxed)
    }

    /// A large message comes, until the token is dropped.
    pub fn begin_large(self: &Arc<Lifeline>) -> LargeMessage {
        self.large.fetch_add(1, Ordering::Relaxed);
        LargeMessage(self.clone())
    }

    /// Whether a large message comes.
    pub(crate) fn is_large(&self) -> bool {
        self.large.load(Ordering::Relaxed) > 0
    }

    /// Whether a request is the first that begins with what was read last; others came along with it.
    pub(crate) fn is_first_of_read(&self) -> bool {
        self.fresh.swap(false, Ordering::Relaxed)
    }

    /// The head of a request is complete.
    pub(crate) fn note_head(&self) {
        self.partial.store(0, Ordering::Relaxed);
    }

    /// The peer sends no more. Returns whether that is new.
    pub(crate) fn note_half_closed(&self) -> bool {
        !self.half_closed.swap(true, Ordering::Relaxed)
    }

    /// Whether the peer sends no more: it has gone, or has closed its side alone.
    pub fn is_half_closed(&self) -> bool {
        self.half_closed.load(Ordering::Relaxed)
    }

    /// The request is whole, and its answer one for which a peer may wait without a word.
    pub(crate) fn may_wait(&self) {
        self.silence.store(MAY_WAIT, Ordering::Relaxed);
    }

    /// The answer is one that is to end with its peer, which counts as gone where it sends no more.
    pub(crate) fn may_not_wait(&self) {
        self.silence.store(GONE, Ordering::Relaxed);
    }

    /// Whether a peer that sends no more may wait for its answer; none where it is not known yet.
    pub(crate) fn waits(&self) -> Option<bool> {
        match self.silence.load(Ordering::Relaxed) {
            CUT_SHORT => None,
            known => Some(known == MAY_WAIT),
        }
    }

    /// Notes that so many more bytes of a request came.
    pub(crate) fn note_came(&self, bytes: usize) {
        self.came.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How many bytes of requests came so far, less than this type's largest value.
    pub(crate) fn came(&self) -> usize {
        self.came.load(Ordering::Relaxed)
    }

    /// How many calls began so far, and messages of theirs that came in full after others.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// How many calls are open.
    pub fn open_calls(&self) -> usize {
        self.open_calls.load(Ordering::Relaxed)
    }

    /// Whether a call is open.
    pub fn is_busy(&self) -> bool {
        self.open_calls.load(Ordering::Relaxed) > 0
    }

    /// Whether an answer is due, and not the rest of a request, or nothing but news.
    pub fn is_due(&self) -> bool {
        match self.endpoint {
            Endpoint::Rest => self.is_busy() && self.waits().is_some(),
            _ => self.open_calls() > self.undue.load(Ordering::Relaxed),
        }
    }

    /// Whether a call was ever answered.
    pub fn has_completed(&self) -> bool {
        self.completed.load(Ordering::Relaxed)
    }

    /// The peer takes nothing now.
    pub(crate) fn note_blocked(&self) {
        if self.blocked.load(Ordering::Relaxed) == 0 {
            self.blocked.store(self.writes.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// The peer takes its answers.
    pub(crate) fn note_written(&self) {
        if self.blocked.load(Ordering::Relaxed) != 0 {
            self.blocked.store(0, Ordering::Relaxed);
        }
    }

    /// Orders for its task.
    pub fn orders(&self) -> u8 {
        self.orders.load(Ordering::Acquire)
    }

    /// Gives an order; the task acts on it soon.
    pub fn order(&self, order: u8) {
        self.orders.fetch_or(order, Ordering::AcqRel);
        if let Some(task) = &*lock(&self.task) {
            task.wake_by_ref();
        }
    }

    /// Takes an order back that was carried out.
    pub fn carried_out(&self, order: u8) {
        self.orders.fetch_and(!order, Ordering::AcqRel);
    }

    /// Runs a connection until it ends by itself or is ordered to, by turns where it takes much of its thread's time.
    pub async fn run(self: Arc<Lifeline>, connection: impl Future<Output = ()> + Send, time: IoTime) {
        let (connection, time) = (Some(Box::pin(connection)), TimeTaken::new(time));
        Run { lifeline: self, connection, time, known: false }.await;
    }
}

struct Run<F> {
    lifeline: Arc<Lifeline>,
    /// Until it has ended.
    connection: Option<Pin<Box<F>>>,
    time: TimeTaken,
    known: bool,
}

impl<F: Future<Output = ()>> Future for Run<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Run { lifeline, connection, time, known } = self.get_mut();
        if !std::mem::replace(known, true) {
            *lock(&lifeline.task) = Some(context.waker().clone());
        }
        time.spend(context, lifeline.open_calls.load(Ordering::Relaxed), |context| {
            if lifeline.orders() & CLOSE == 0
                && connection.as_mut().is_some_and(|one| one.as_mut().poll(context).is_pending())
            {
                return Poll::Pending;
            }
            // What it leaves behind takes time, too.
            *connection = None;
            Poll::Ready(())
        })
    }
}

/// A large message on its way.
#[derive(Debug)]
pub struct LargeMessage(Arc<Lifeline>);

impl Drop for LargeMessage {
    fn drop(&mut self) {
        self.0.large.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An open call of a connection.
#[derive(Debug)]
pub struct OpenCall {
    lifeline: Arc<Lifeline>,
    /// What it takes, once that is counted.
    held: Option<Box<Reservation>>,
    /// Whether its answer is due.
    is_due: bool,
}

impl OpenCall {
    /// A number that no other connection has as long as this call is open.
    pub fn connection(&self) -> usize {
        Arc::as_ptr(&self.lifeline).addr()
    }

    /// Its connection.
    pub fn lifeline(&self) -> &Arc<Lifeline> {
        &self.lifeline
    }

    /// Counts what the call takes for as long as it stays: its message comes later, or its answer does. One of many gets
    /// nothing of what is kept for small requests.
    pub fn hold(&mut self, head: &request::Parts, share: &Arc<Share>) -> Result<(), Status> {
        if self.held.is_none() {
            // A field stands in the frame that it came in, too.
            let fields = head.headers.iter().map(|(name, value)| FIELD + 2 * (name.as_str().len() + value.len()));
            let bytes = CALL + 2 * head.uri.path().len() + fields.sum::<usize>();
            let asks_little = bytes <= LITTLE && self.lifeline.open_calls() <= FEW_CALLS;
            let mut held = Box::new(share.reservation());
            held.grow(bytes, if asks_little { bytes } else { usize::MAX })?;
            self.held = Some(held);
        }
        Ok(())
    }

    /// Counts bytes that are kept of the call's answer while its client does not take it, of a call that is counted itself;
    /// as for the call, nothing of what is kept for small requests is there for them.
    pub fn keep(&self, bytes: usize) -> Result<Option<Reservation>, Status> {
        let Some(held) = &self.held else { return Ok(None) };
        let mut kept = held.share().reservation();
        kept.grow(bytes, usize::MAX)?;
        Ok(Some(kept))
    }

    /// Counts an answer for as long as its client does not take it, of a call that is counted itself; once where other calls of
    /// the connection have it, too.
    pub fn keep_answer(&self, answer: Bytes) -> Result<Bytes, Status> {
        let Some(held) = &self.held else { return Ok(answer) };
        self.lifeline.shared_answers.keep(answer, &held.share())
    }

    /// Notes whether its answer is due, as it is unless something else is said: its message has come in full, or one of several.
    pub fn note_due(&mut self, is_due: bool) {
        if std::mem::replace(&mut self.is_due, is_due) == is_due {
            return;
        }
        if is_due {
            // However fast it is answered, it was asked for.
            self.lifeline.calls.fetch_add(1, Ordering::Relaxed);
            self.lifeline.undue.fetch_sub(1, Ordering::Relaxed);
        } else {
            self.lifeline.undue.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The call stays no longer than any other.
    pub fn release(&mut self) {
        self.held = None;
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if !self.is_due {
            self.lifeline.undue.fetch_sub(1, Ordering::Relaxed);
        }
        self.lifeline.completed.store(true, Ordering::Relaxed);
        self.lifeline.open_calls.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    /// The head of a call with a field of so many bytes.
    fn head(bytes: usize) -> request::Parts {
        let request = http::Request::builder().uri("/s/m").header("a", "v".repeat(bytes));
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn who_has_few_small_calls_open_is_let_in_while_others_hold_all_but_what_is_kept_for_small_requests() {
        let memory = Arc::new(Memory::new(80 * MB, MB));
        let mut others: Vec<Reservation> = (0..5).map(|_| memory.of_connection().reservation()).collect();
        others.iter_mut().for_each(|other| other.grow(14 * MB, usize::MAX).unwrap());
        let (lifeline, share) = (Lifeline::new(Endpoint::Grpc, false), memory.of_connection());
        let mut calls: Vec<OpenCall> = (0..FEW_CALLS).map(|_| lifeline.begin_call()).collect();
        assert!(calls[0].hold(&head(LITTLE), &share).is_err(), "it takes much");
        calls.iter_mut().for_each(|call| call.hold(&head(100), &share).unwrap());
        assert!(lifeline.begin_call().hold(&head(100), &share).is_err(), "it is one of many");
        drop(others);
        assert!(lifeline.begin_call().hold(&head(LITTLE), &share).is_ok());
    }
}
