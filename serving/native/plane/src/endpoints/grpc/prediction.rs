//! Predict and SessionRun requests as the engine takes them, and the answers to these and all others.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use tidegate_codec::inference::InferenceOutputs;
use tidegate_codec::model_spec::ModelSpec;
use tidegate_codec::open_inference::answer::InferAnswer;
use tidegate_codec::open_inference::message;
use tidegate_codec::protobuf::frame::{finish_frame, start_frame};
use tidegate_codec::protobuf::predict::{PredictRequest, encode_response, select_outputs};
use tidegate_codec::protobuf::session_run::{self, Fetched, SessionRunRequest};
use tidegate_codec::protobuf::tensor::Numbers;
use tidegate_codec::signatures::{RequestRows, Signature};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::{Page, Room};
use tidegate_engine::batching::Queue;
use tidegate_engine::metrics::{Call, Endpoint};
use tidegate_engine::request::{Payload, Reply, Rows, Tags};
use tidegate_engine::serving_map::Version;
use tidegate_engine::telemetry::Observation;

use crate::endpoints::body::held;
use crate::endpoints::examples::InferenceReply;
use crate::endpoints::grpc::reply::GrpcReply;
use crate::endpoints::open_inference::InferReply;

/// A `PredictRequest`, and how the numbers of its answer are written.
pub struct Predict<'a>(pub &'a PredictRequest<'a>, pub Numbers);

impl Payload for Predict<'_> {
    type Reply = PredictionReply;

    fn call(&self) -> Call {
        Call::Predict
    }

    fn queue<'v>(&self, spec: &ModelSpec<'_>, version: &'v Version) -> Result<&'v Arc<Queue>, Status> {
        let name = spec.signature();
        version.queue(name).ok_or_else(|| {
            Status::new(Code::FailedPrecondition, format!("Serving signature key \"{name}\" not found."))
        })
    }

    fn sequence(&self, signature: &Signature, room: &mut dyn Room, max_bytes: usize) -> Vec<u8> {
        self.0.sequence(signature, room, max_bytes)
    }

    fn select(&self, signature: &Signature, reply: &mut PredictionReply) -> Result<(), Status> {
        reply.numbers = self.1;
        if let Some(chosen) = select_outputs(&self.0.output_filter, signature)? {
            reply.selection = Selection::Some(chosen);
        }
        Ok(())
    }

    fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>, max_bytes: usize) -> Result<RequestRows, Status> {
        self.0.read_inputs(signature, page, max_bytes)
    }
}

/// Feeds and fetches.
pub struct SessionRun<'a>(pub &'a SessionRunRequest<'a>);

impl Payload for SessionRun<'_> {
    type Reply = PredictionReply;

    fn call(&self) -> Call {
        Call::SessionRun
    }

    /// The signature whose inputs are the feeds and whose outputs have the fetches: the one asked for, or any.
    fn queue<'v>(&self, spec: &ModelSpec<'_>, version: &'v Version) -> Result<&'v Arc<Queue>, Status> {
        let named = |name: &str| spec.signature_name.is_empty() || name == spec.signature_name;
        let mut able = version.queues.iter().filter(|queue| named(&queue.signature().name) && self.runs(queue));
        let default = version.queue(spec.signature()).filter(|queue| self.runs(queue));
        default.or_else(|| able.next()).ok_or_else(|| {
            let names: Vec<&str> = version.queues.iter().map(|queue| queue.signature().name.as_str()).collect();
            self.0.no_signature(&names)
        })
    }

    fn sequence(&self, signature: &Signature, room: &mut dyn Room, max_bytes: usize) -> Vec<u8> {
        self.0.inputs.sequence(signature, room, max_bytes)
    }

    fn select(&self, signature: &Signature, reply: &mut PredictionReply) -> Result<(), Status> {
        reply.selection = Selection::Fetches(self.0.fetched(signature)?);
        Ok(())
    }

    fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>, max_bytes: usize) -> Result<RequestRows, Status> {
        self.0.inputs.read_inputs(signature, page, max_bytes)
    }
}

impl SessionRun<'_> {
    fn runs(&self, queue: &Queue) -> bool {
        self.0.maps_onto(queue.signature())
    }
}

/// The outputs that a client wants, and so the message that it gets.
#[derive(Debug)]
pub enum Selection {
    /// All, by name.
    All,
    /// These, by name.
    Some(Box<[usize]>),
    /// These, under the names that the client gave them.
    Fetches(Fetched),
    /// A classification or a regression.
    Inference(InferenceOutputs),
    /// The answer to an infer request.
    Infer(Box<InferAnswer>),
}

/// A call's way back, and the message that is to be sent on it.
#[derive(Debug)]
pub struct PredictionReply {
    call: GrpcReply,
    /// The outputs that the client wants.
    pub selection: Selection,
    numbers: Numbers,
}

impl From<GrpcReply> for PredictionReply {
    fn from(call: GrpcReply) -> PredictionReply {
        PredictionReply { call, selection: Selection::All, numbers: Numbers::default() }
    }
}

impl PredictionReply {
    /// The call, for another kind of answer.
    pub fn into_call(self) -> GrpcReply {
        self.call
    }
}

impl InferenceReply for PredictionReply {
    fn select_inference(&mut self, outputs: InferenceOutputs) {
        self.selection = Selection::Inference(outputs);
    }
}

impl InferReply for PredictionReply {
    fn select_infer(&mut self, answer: InferAnswer) {
        self.selection = Selection::Infer(Box::new(answer));
    }
}

impl Reply for PredictionReply {
    fn endpoint(&self) -> Endpoint {
        Endpoint::Grpc
    }

    fn connection(&self) -> usize {
        self.call.connection()
    }

    fn rows_under_way(&self) -> Option<&AtomicUsize> {
        self.call.lifeline().map(|lifeline| &lifeline.rows_under_way)
    }

    fn observation(&self) -> Option<&Observation> {
        Some(&self.call.observation)
    }

    fn is_gone(&mut self, _: bool) -> bool {
        self.call.is_gone()
    }

    fn succeed(self, rows: &Rows<'_>, tags: Tags<'_>) -> Code {
        match encode(rows, &self.selection, self.numbers) {
            Ok(message) => {
                self.call.succeed(held(message, &rows.served.memory), tags);
                Code::Ok
            }
            Err(status) => {
                self.call.fail(&status, tags);
                status.code
            }
        }
    }

    fn fail(self, status: &Status, tags: Tags<'_>) {
        self.call.fail(status, tags);
    }
}

/// The framed message.
fn encode(rows: &Rows<'_>, selection: &Selection, numbers: Numbers) -> Result<Bytes, Status> {
    let spec = rows.served.model_spec();
    Ok(match selection {
        Selection::All => encode_response(rows.all_named(), &spec, numbers),
        Selection::Some(chosen) => encode_response(chosen.iter().map(|index| rows.named(*index)), &spec, numbers),
        Selection::Fetches(fetches) => {
            session_run::encode(fetches.iter().map(|(index, name)| (&**name, rows.slice(*index))), &spec)
        }
        Selection::Inference(outputs) => {
            let inference = rows.inference(*outputs)?;
            let mut out = start_frame(96);
            inference.write_result(&mut out);
            spec.write(&mut out, 2);
            finish_frame(out)
        }
        Selection::Infer(answer) => {
            let version = rows.served.version;
            message::encode(spec.name, version, answer, |index| rows.named(index))?
        }
    })
}
