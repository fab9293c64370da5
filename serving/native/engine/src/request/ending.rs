//! The end of a lane: whoever still waits for an answer is told that none will come.

use tidegate_codec::status::{Code, Status};

use crate::request::dispatcher::Dispatcher;
use crate::request::reply::{Reply, Tags};
use crate::sync::lock;

impl<R: Reply> Dispatcher<R> {
    /// Answers every request that waits with UNAVAILABLE. Returns how many there were.
    pub fn refuse_waiting(&self) -> usize {
        let waiting = lock(&self.inflight).take_all();
        let count = waiting.len();
        for pending in waiting {
            let served = &pending.queue.served;
            let status = Status::new(
                Code::Unavailable,
                format!("the server stopped before model '{}' version {} had answered", served.model, served.version),
            );
            let endpoint = pending.reply.endpoint();
            served.metrics.count_answer(endpoint, status.code);
            self.engine.metrics.count_latency(endpoint, pending.received.elapsed());
            pending.reply.fail(&status, Tags { version: Some(&served.version_header), id: Some(&pending.id) });
        }
        count
    }
}
