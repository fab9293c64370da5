//! The messages of one streaming answer, on their way from the executor thread that makes them to whoever sends them on.
//! Only a few wait: a model does not get far ahead of a client that reads slowly.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::Tensor;

use crate::batching::served_signature::ServedSignature;
use crate::memory::Reservation;
use crate::sync::lock;

/// Messages that may wait for their reader.
pub const WAITING: usize = 8;

/// One message: all declared outputs, in order.
#[derive(Debug)]
pub struct Message {
    /// Whose outputs.
    pub served: Arc<ServedSignature>,
    /// As the model gave them, without an axis for rows.
    pub outputs: Vec<Tensor>,
    /// Taken for as long as it waits.
    _memory: Reservation,
}

impl Message {
    /// Takes memory for outputs that are there, or says why there is none.
    pub fn new(served: Arc<ServedSignature>, outputs: Vec<Tensor>) -> Result<Message, Status> {
        let bytes = outputs.iter().map(|output| output.column.byte_size()).sum();
        let mut memory = served.memory.reservation();
        memory.grow(bytes, bytes)?;
        Ok(Message { served, outputs, _memory: memory })
    }

    /// The outputs, and whose they are.
    pub fn into_outputs(self) -> (Arc<ServedSignature>, Vec<Tensor>) {
        (self.served, self.outputs)
    }
}

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// A message.
    Message(Message),
    /// No more messages, and why.
    End(Result<(), Status>),
}

#[derive(Debug)]
struct State {
    messages: VecDeque<Message>,
    end: Option<Result<(), Status>>,
    /// Whether nobody reads any more.
    left: bool,
    reader: Option<Waker>,
    last: Instant,
}

/// One streaming answer.
#[derive(Debug)]
pub struct Stream {
    state: Mutex<State>,
    changed: Condvar,
    /// How long each message is waited for, where nothing but the end of all has a deadline.
    patience: Option<Duration>,
}

impl Stream {
    /// Without messages yet. With a patience the request's deadline moves on with every message.
    pub fn new(patience: Option<Duration>) -> Arc<Stream> {
        let (messages, last) = (VecDeque::new(), Instant::now());
        let state = State { messages, end: None, left: false, reader: None, last };
        Arc::new(Stream { state: Mutex::new(state), changed: Condvar::new(), patience })
    }

    /// Hands a message on, once there is room for it. False where nobody wants one any more.
    pub fn send(&self, message: Message) -> bool {
        let mut state = lock(&self.state);
        while state.messages.len() >= WAITING && state.is_open() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.is_open() {
            return false;
        }
        state.messages.push_back(message);
        state.last = Instant::now();
        self.tell(state);
        true
    }

    /// No more messages come; the first to say so says why. Those that wait are read before.
    pub fn end(&self, end: Result<(), Status>) {
        let mut state = lock(&self.state);
        state.end.get_or_insert(end);
        self.tell(state);
    }

    /// Nobody reads any more.
    pub fn leave(&self) {
        let mut state = lock(&self.state);
        state.left = true;
        let unread = std::mem::take(&mut state.messages);
        self.tell(state);
        drop(unread);
    }

    /// Whether nobody reads any more.
    pub fn is_left(&self) -> bool {
        lock(&self.state).left
    }

    /// How long each message is waited for, where nothing but that bounds the answer.
    pub fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// Whether it ended because its deadline had passed.
    pub fn is_late(&self) -> bool {
        let late = |end: &Result<(), Status>| end.as_ref().is_err_and(|status| status.code == Code::DeadlineExceeded);
        lock(&self.state).end.as_ref().is_some_and(late)
    }

    /// When the next message is too late, where its deadline moves on.
    pub fn deadline(&self) -> Option<Instant> {
        self.patience.map(|patience| lock(&self.state).last + patience)
    }

    /// What comes next. The end stays.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Next> {
        let mut state = lock(&self.state);
        if let Some(next) = state.next() {
            self.changed.notify_all();
            return Poll::Ready(next);
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// What comes next, if it comes until then.
    pub fn wait_next(&self, until: Instant) -> Option<Next> {
        let mut state = lock(&self.state);
        loop {
            if let Some(next) = state.next() {
                self.changed.notify_all();
                return Some(next);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn tell(&self, mut state: std::sync::MutexGuard<'_, State>) {
        let reader = state.reader.take();
        drop(state);
        self.changed.notify_all();
        reader.into_iter().for_each(Waker::wake);
    }
}

impl State {
    fn is_open(&self) -> bool {
        !self.left && self.end.is_none()
    }

    fn next(&mut self) -> Option<Next> {
        self.messages.pop_front().map(Next::Message).or_else(|| self.end.clone().map(Next::End))
    }
}
