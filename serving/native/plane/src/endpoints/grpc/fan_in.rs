//! Fan-in: one answer to the tasks of a MultiInference call, sent when all are answered or the first has failed.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use tidegate_codec::inference::InferenceOutputs;
use tidegate_codec::protobuf::frame::{finish_frame, start_frame};
use tidegate_codec::protobuf::wire;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::request::{Reply, Rows, Tags};
use tidegate_engine::sync::lock;
use tidegate_engine::telemetry::Observation;

use crate::connections::lifeline::Lifeline;
use crate::endpoints::examples::InferenceReply;
use crate::endpoints::grpc::reply::GrpcReply;

/// A call that waits for several answers.
#[derive(Debug)]
struct FanIn {
    /// None once the call is answered.
    reply: Option<GrpcReply>,
    results: Vec<Option<Vec<u8>>>,
}

/// One task's way to the answer.
#[derive(Debug)]
pub struct TaskReply {
    fan_in: Arc<Mutex<FanIn>>,
    index: usize,
    outputs: InferenceOutputs,
    observation: Observation,
    /// The connection of its call.
    lifeline: Option<Arc<Lifeline>>,
}

/// One reply for each task, given the outputs that answer it.
pub fn fan_in(reply: GrpcReply, tasks: impl ExactSizeIterator<Item = InferenceOutputs>) -> Vec<TaskReply> {
    let (observation, lifeline) = (reply.observation.clone(), reply.lifeline().cloned());
    let fan_in = Arc::new(Mutex::new(FanIn { reply: Some(reply), results: vec![None; tasks.len()] }));
    let task = |(index, outputs)| {
        let (fan_in, observation, lifeline) = (fan_in.clone(), observation.clone(), lifeline.clone());
        TaskReply { fan_in, index, outputs, observation, lifeline }
    };
    tasks.enumerate().map(task).collect()
}

impl InferenceReply for TaskReply {
    fn select_inference(&mut self, outputs: InferenceOutputs) {
        self.outputs = outputs;
    }
}

impl Reply for TaskReply {
    fn endpoint(&self) -> Endpoint {
        Endpoint::Grpc
    }

    fn rows_under_way(&self) -> Option<&AtomicUsize> {
        self.lifeline.as_ref().map(|lifeline| &lifeline.rows_under_way)
    }

    fn observation(&self) -> Option<&Observation> {
        Some(&self.observation)
    }

    /// Also where another task's failure was the answer.
    fn is_gone(&mut self, _: bool) -> bool {
        lock(&self.fan_in).reply.as_mut().is_none_or(GrpcReply::is_gone)
    }

    /// Adds an `InferenceResult`; the last one sends the `MultiInferenceResponse`.
    fn succeed(self, rows: &Rows<'_>, tags: Tags<'_>) -> Code {
        let inference = match rows.inference(self.outputs) {
            Ok(inference) => inference,
            Err(status) => {
                self.fail(&status, tags);
                return status.code;
            }
        };
        let mut result = Vec::new();
        rows.served.model_spec().write(&mut result, 1);
        inference.write_task_result(&mut result);
        let mut fan_in = lock(&self.fan_in);
        fan_in.results[self.index] = Some(result);
        if fan_in.results.iter().all(Option::is_some)
            && let Some(reply) = fan_in.reply.take()
        {
            let mut out = start_frame(0);
            fan_in.results.iter().flatten().for_each(|result| wire::put_bytes(&mut out, 1, result));
            reply.succeed(finish_frame(out), tags);
        }
        Code::Ok
    }

    /// Answers the whole call with an error, unless it is answered already.
    fn fail(self, status: &Status, tags: Tags<'_>) {
        if let Some(reply) = lock(&self.fan_in).reply.take() {
            reply.fail(status, tags);
        }
    }
}
