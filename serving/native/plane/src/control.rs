//! Rare calls on the data ports that Python answers, one at a time on a thread of their own. Between two of them it rests,
//! so that clients who send nothing else leave others the processor.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::timeout;

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

/// The thread rests for so many times as long as a call took, but not after what only waited, such as for models to load.
const REST: u32 = 4;
const LONGEST_REST: Duration = Duration::from_millis(50);

struct Call {
    method: String,
    request: Bytes,
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
    pub fn call(&self, method: &str, request: Bytes) -> ControlAnswer {
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
            if call.answer.is_closed() {
                continue;
            }
            let began = Instant::now();
            let answer = catch_unwind(AssertUnwindSafe(|| hooks.control(&call.method, &call.request)));
            let _ = call.answer.send(answer.unwrap_or_else(|_| Err(Status::internal("the control call panicked"))));
            std::thread::sleep((began.elapsed() * REST).min(LONGEST_REST));
        }
    }
}

/// Waits for an answer, unless the client goes before: a call that has not begun then never does.
pub async fn wait(answer: ControlAnswer, gone: impl Future<Output = ()>) -> Result<Vec<u8>, Status> {
    let answer = answer?;
    tokio::select! {
        answer = timeout(LONGEST, answer) => match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Status::new(Code::Unavailable, "the server stopped before the call was answered")),
            Err(_) => Err(Status::new(Code::DeadlineExceeded, "the deadline passed while the control call waited")),
        },
        () = gone => Err(Status::new(Code::Cancelled, "the client has gone")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_engine::log::{LogBlock, LogSink};
    use tidegate_engine::telemetry::{Ended, TraceSink};

    use super::*;

    const WORK: Duration = Duration::from_millis(5);

    /// Computes for a while when it is called.
    struct Busy;

    impl LogSink for Busy {
        fn take(&self, _: LogBlock) -> bool {
            true
        }
    }

    impl TraceSink for Busy {
        fn take_traces(&self, _: &[Arc<Ended>]) -> bool {
            true
        }
    }

    impl Hooks for Busy {
        fn released(&self, _: &str, _: i64) {}

        fn control(&self, _: &str, request: &[u8]) -> Result<Vec<u8>, Status> {
            let until = Instant::now() + WORK;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            Ok(request.to_vec())
        }
    }

    #[test]
    fn the_thread_rests_after_each_call() {
        const CALLS: u32 = 4;
        let (control, calls) = channel();
        let answers: Vec<_> = (0..CALLS).map(|_| control.call(RELOAD_CONFIG, Bytes::from_static(b"x"))).collect();
        control.close();
        let began = Instant::now();
        calls.run(&Busy);
        assert!(began.elapsed() >= CALLS * WORK * (1 + REST), "{:?}", began.elapsed());
        for answer in answers {
            assert_eq!(answer.unwrap().try_recv().unwrap().unwrap(), b"x");
        }
    }
}
