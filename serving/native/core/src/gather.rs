//! One answer to several tasks: it goes out when the last of them is answered, or the first has failed.
//! MultiInference makes it around a call's reply; every task's request holds a part of it as its own reply.

use std::sync::{Arc, Mutex};

use crate::grpc_reply::{GrpcReply, Tags};
use crate::lock;
use crate::predict_response::{finish_frame, start_frame};
use crate::status::Status;
use crate::wire;

/// A call that waits for several answers.
#[derive(Debug)]
pub struct Gather {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// None once the call is answered.
    reply: Option<GrpcReply>,
    results: Vec<Option<Vec<u8>>>,
}

/// One task's way to the answer.
#[derive(Debug)]
pub struct GatherPart {
    gather: Arc<Gather>,
    index: usize,
}

impl Gather {
    /// One part for each of `count` tasks.
    pub fn parts(reply: GrpcReply, count: usize) -> Vec<GatherPart> {
        let state = State { reply: Some(reply), results: vec![None; count] };
        let gather = Arc::new(Gather { state: Mutex::new(state) });
        (0..count).map(|index| GatherPart { gather: gather.clone(), index }).collect()
    }
}

impl GatherPart {
    /// Whether nobody waits any more: the client has gone, or another task's failure was its answer.
    pub fn is_gone(&self) -> bool {
        lock(&self.gather.state).reply.as_mut().is_none_or(GrpcReply::is_gone)
    }

    /// Adds an `InferenceResult`; the last one sends the `MultiInferenceResponse`.
    pub fn succeed(self, result: Vec<u8>, tags: Tags<'_>) {
        let mut state = lock(&self.gather.state);
        state.results[self.index] = Some(result);
        if state.results.iter().any(Option::is_none) {
            return;
        }
        if let Some(reply) = state.reply.take() {
            let mut out = start_frame(0);
            state.results.iter().flatten().for_each(|result| wire::put_bytes(&mut out, 1, result));
            reply.succeed(finish_frame(out), tags);
        }
    }

    /// Answers the whole call with an error, unless it is answered already.
    pub fn fail(self, status: &Status, tags: Tags<'_>) {
        if let Some(reply) = lock(&self.gather.state).reply.take() {
            reply.fail(status, tags);
        }
    }
}
