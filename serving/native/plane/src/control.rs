//! Rare calls on the data ports that Python answers, one at a time on a thread of their own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;

use tidegate_codec::status::{Code, Status};
use tidegate_engine::sync::lock;

use crate::hooks::Hooks;

/// An answer that is to come, or why there will be none.
type ControlAnswer = Result<oneshot::Receiver<Result<Vec<u8>, Status>>, Status>;

/// Calls that may wait.
const WAITING: usize = 256;

/// Every method of TensorFlow Serving that Python answers.
pub const METHODS: [&str; 1] = [RELOAD_CONFIG];

/// Lasts as long as models take to load; a client's deadline is its own.
const RELOAD_CONFIG: &str = "/tensorflow.serving.ModelService/HandleReloadConfigRequest";

/// The longest that an answer is waited for.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

struct Call {
    method: String,
    request: Vec<u8>,
    answer: oneshot::Sender<Result<Vec<u8>, Status>>,
}

/// The way to the control thread.
pub struct Control {
    sender: Mutex<Option<SyncSender<Call>>>,
}

/// The control thread's end of it.
pub struct ControlCalls(Receiver<Call>);

/// Both ends.
pub fn channel() -> (Control, ControlCalls) {
    let (sender, receiver) = sync_channel(WAITING);
    (Control { sender: Mutex::new(Some(sender)) }, ControlCalls(receiver))
}

impl Control {
    /// Sends a call; the answer comes through the receiver. Refused at once when too many wait.
    pub fn call(&self, method: &str, request: Vec<u8>) -> ControlAnswer {
        let (answer, receiver) = oneshot::channel();
        let call = Call { method: method.to_owned(), request, answer };
        let sent = match lock(&self.sender).as_ref() {
            Some(sender) => sender.try_send(call),
            None => Err(TrySendError::Disconnected(call)),
        };
        match sent {
            Ok(()) => Ok(receiver),
            Err(TrySendError::Full(_)) => {
                Err(Status::exhausted(format!("too many control calls wait: the limit is {WAITING}")))
            }
            Err(TrySendError::Disconnected(_)) => Err(Status::new(Code::Unavailable, "the server is stopping")),
        }
    }

    /// The thread answers what waits and ends.
    pub fn close(&self) {
        lock(&self.sender).take();
    }
}

impl ControlCalls {
    /// The control thread.
    pub fn run(&self, hooks: &dyn Hooks) {
        for call in &self.0 {
            if !call.answer.is_closed() {
                let answer = catch_unwind(AssertUnwindSafe(|| hooks.control(&call.method, &call.request)));
                let _ = call.answer.send(answer.unwrap_or_else(|_| Err(Status::internal("the control call panicked"))));
            }
        }
    }
}

/// Waits for an answer.
pub async fn wait(answer: ControlAnswer) -> Result<Vec<u8>, Status> {
    match tokio::time::timeout(LONGEST, answer?).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(Status::new(Code::Unavailable, "the server stopped before the call was answered")),
        Err(_) => Err(Status::new(Code::DeadlineExceeded, "the deadline passed while the control call waited")),
    }
}
