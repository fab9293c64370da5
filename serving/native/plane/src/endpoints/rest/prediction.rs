//! Predict requests as the engine takes them, and the answers to these and all others.

use std::marker::PhantomData;
use std::sync::Arc;

use http::StatusCode;
use tidegate_codec::inference::InferenceOutputs;
use tidegate_codec::json::predict_request::{Form, JsonRequest};
use tidegate_codec::json::predict_response;
use tidegate_codec::model_spec::ModelSpec;
use tidegate_codec::open_inference::answer::InferAnswer;
use tidegate_codec::open_inference::generate;
use tidegate_codec::signatures::{RequestRows, Signature};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::{Page, Room};
use tidegate_engine::batching::Queue;
use tidegate_engine::metrics::{Call, Endpoint};
use tidegate_engine::request::{Payload, Reply, Rows, Tags};
use tidegate_engine::serving_map::Version;
use tidegate_engine::telemetry::Observation;
use tokio::sync::oneshot;

use crate::connections::lifeline::Lifeline;
use crate::endpoints::body::held;
use crate::endpoints::examples::InferenceReply;
use crate::endpoints::open_inference::InferReply;
use crate::endpoints::rest::media_type::MediaType;
use crate::endpoints::rest::service::{RestAnswer, RestCall, RestResponse, failure, with_bytes};
use crate::endpoints::rest::{infer_response, plain_response};

/// The body of a predict request, answered by an `R`.
pub struct Predict<'a, R> {
    request: &'a JsonRequest<'a>,
    reply: PhantomData<fn() -> R>,
}

impl<'a, R> Predict<'a, R> {
    /// As it came.
    pub fn new(request: &'a JsonRequest<'a>) -> Predict<'a, R> {
        Predict { request, reply: PhantomData }
    }
}

impl<R: Reply> Payload for Predict<'_, R> {
    type Reply = R;

    fn call(&self) -> Call {
        Call::Predict
    }

    fn queue<'v>(&self, spec: &ModelSpec<'_>, version: &'v Version) -> Result<&'v Arc<Queue>, Status> {
        let name = spec.signature();
        version
            .queue(name)
            .ok_or_else(|| Status::invalid(format!("Serving signature name: \"{name}\" not found in signature def")))
    }

    fn sequence(&self, signature: &Signature, room: &mut dyn Room, _: usize) -> Vec<u8> {
        self.request.sequence(signature, room)
    }

    fn select(&self, _: &Signature, _: &mut R) -> Result<(), Status> {
        Ok(())
    }

    fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>, _: usize) -> Result<RequestRows, Status> {
        self.request.read_inputs(signature, page)
    }
}

/// The form of an answer.
#[derive(Debug)]
enum Selection {
    /// All outputs, in the form of the request.
    Outputs(Form),
    /// A classification or a regression.
    Inference(InferenceOutputs),
    /// The answer to an infer request.
    Infer(Box<InferAnswer>),
    /// A plain object.
    Plain(MediaType),
    /// The answer to a generate request.
    Generate,
}

/// A request's way back, and the form of its answer.
#[derive(Debug)]
pub struct RestReply {
    sender: oneshot::Sender<RestResponse>,
    selection: Selection,
    lifeline: Arc<Lifeline>,
    observation: Observation,
}

impl RestReply {
    /// A reply, and the answer that will come through it.
    pub fn new(form: Form, call: &RestCall) -> (RestReply, RestAnswer) {
        RestReply::select(Selection::Outputs(form), call)
    }

    /// The same for an answer that is a plain object.
    pub fn plain(media_type: MediaType, call: &RestCall) -> (RestReply, RestAnswer) {
        RestReply::select(Selection::Plain(media_type), call)
    }

    /// The same for the answer to a generate request.
    pub fn generate(call: &RestCall) -> (RestReply, RestAnswer) {
        RestReply::select(Selection::Generate, call)
    }

    fn select(selection: Selection, call: &RestCall) -> (RestReply, RestAnswer) {
        let (sender, later) = oneshot::channel();
        let (lifeline, observation) = (call.lifeline.clone(), call.observation.clone());
        (RestReply { sender, selection, lifeline, observation }, RestAnswer::Later(later))
    }
}

impl InferenceReply for RestReply {
    fn select_inference(&mut self, outputs: InferenceOutputs) {
        self.selection = Selection::Inference(outputs);
    }
}

impl InferReply for RestReply {
    fn select_infer(&mut self, answer: InferAnswer) {
        self.selection = Selection::Infer(Box::new(answer));
    }
}

impl Reply for RestReply {
    fn endpoint(&self) -> Endpoint {
        Endpoint::Rest
    }

    fn observation(&self) -> Option<&Observation> {
        Some(&self.observation)
    }

    fn is_gone(&mut self, waits: bool) -> bool {
        self.sender.is_closed() || waits && self.lifeline.is_half_closed()
    }

    fn succeed(self, rows: &Rows<'_>, tags: Tags<'_>) -> Code {
        let (code, response) = match respond(rows, &self.selection, tags) {
            Ok(response) => (Code::Ok, response),
            Err(status) => (status.code, failure(&status, tags)),
        };
        self.observation.note(|facts| facts.code = Some(code));
        let _ = self.sender.send(response);
        code
    }

    fn fail(self, status: &Status, tags: Tags<'_>) {
        self.observation.note(|facts| facts.code = Some(status.code));
        let response = match self.selection {
            Selection::Plain(_) => plain_response::failure(status, tags),
            _ => failure(status, tags),
        };
        let _ = self.sender.send(response);
    }
}

fn respond(rows: &Rows<'_>, selection: &Selection, tags: Tags<'_>) -> Result<RestResponse, Status> {
    let outputs = || rows.all_named().collect::<Vec<_>>();
    let body = match selection {
        Selection::Inference(outputs) => rows.inference(*outputs).map(|inference| inference.to_json())?,
        Selection::Outputs(form) if rows.outputs.len() == 1 => predict_response::encode(&[rows.named(0)], *form)?,
        Selection::Outputs(form) => predict_response::encode(&outputs(), *form)?,
        Selection::Infer(answer) => return infer_response::respond(rows, answer, tags),
        Selection::Generate => generate::encode(&rows.served.model, rows.served.version, &outputs()),
        Selection::Plain(media_type) => return plain_response::respond(rows, *media_type, tags),
    };
    Ok(with_bytes(StatusCode::OK, held(body.into(), &rows.served.memory), tags))
}
