//! The methods of TensorFlow Serving's gRPC services: which are answered here and which Python answers.
//! The gRPC endpoint hands in complete calls; predict goes to the desk, metadata comes from the map, the rest is asked.

use std::sync::Arc;

use bytes::Bytes;
use http::request;

use crate::ask::{Ask, Payload};
use crate::control;
use crate::desk::Desk;
use crate::example_input;
use crate::grpc::{GrpcCall, GrpcService};
use crate::grpc_health;
use crate::grpc_reply::{GrpcReply, ID_HEADER, Tags};
use crate::head::Method;
use crate::metadata;
use crate::metrics::Endpoint;
use crate::model_status;
use crate::multi_inference::MultiInferenceRequest;
use crate::predict_request::PredictRequest;
use crate::predict_response;
use crate::request_id::RequestId;
use crate::session_run::SessionRunRequest;
use crate::status::{Code, Status};

/// The predict method.
pub const PREDICT: &str = "/tensorflow.serving.PredictionService/Predict";
/// Classes and scores of examples.
pub const CLASSIFY: &str = "/tensorflow.serving.PredictionService/Classify";
/// A number for each example.
pub const REGRESS: &str = "/tensorflow.serving.PredictionService/Regress";
/// Both, by several signatures.
pub const MULTI_INFERENCE: &str = "/tensorflow.serving.PredictionService/MultiInference";
/// Feeds and fetches.
pub const SESSION_RUN: &str = "/tensorflow.serving.SessionService/SessionRun";
/// The metadata method.
pub const METADATA: &str = "/tensorflow.serving.PredictionService/GetModelMetadata";

/// The states of a model's versions.
pub const MODEL_STATUS: &str = "/tensorflow.serving.ModelService/GetModelStatus";
/// All that are answered without Python.
pub const METHODS: [&str; 7] = [PREDICT, CLASSIFY, REGRESS, MULTI_INFERENCE, SESSION_RUN, METADATA, MODEL_STATUS];

/// The gRPC side of one desk.
pub struct GrpcMethods(pub Arc<Desk>);

impl GrpcService for GrpcMethods {
    fn call(&self, call: GrpcCall) {
        let path = call.head.uri.path();
        match path {
            PREDICT => return self.predict(call),
            CLASSIFY => return self.examples(call, Method::Classify),
            REGRESS => return self.examples(call, Method::Regress),
            MULTI_INFERENCE => return self.multi_inference(call),
            SESSION_RUN => return self.session_run(call),
            METADATA => return self.metadata(call),
            MODEL_STATUS => return self.model_status(call),
            grpc_health::CHECK => return self.health(call),
            grpc_health::WATCH => return self.watch_health(call),
            _ => {}
        }
        match control::METHODS.iter().find(|method| **method == path) {
            Some(method) => self.ask_python(method, call),
            None => {
                let status = Status::new(Code::Unimplemented, format!("unknown method {path}"));
                self.count(status.code, &call);
                call.reply.fail(&status, Tags::default());
            }
        }
    }
}

impl GrpcMethods {
    fn id(&self, call: &GrpcCall) -> RequestId {
        RequestId::choose(call.head.headers.get(ID_HEADER), &self.0.shared.ids)
    }

    fn count(&self, code: Code, call: &GrpcCall) {
        self.0.shared.metrics.unrouted.count(Endpoint::Grpc, code);
        self.0.shared.metrics.count_latency(Endpoint::Grpc, call.received.elapsed());
    }

    /// The metadata, the message, and who sent them.
    fn open(&self, call: GrpcCall) -> (request::Parts, Bytes, Ask<GrpcReply>) {
        let id = self.id(&call);
        let GrpcCall { head, message, received, deadline, reply } = call;
        (head, message, Ask { reply, id, received, deadline })
    }

    fn examples(&self, call: GrpcCall, method: Method) {
        let (head, message, ask) = self.open(call);
        match example_input::parse_request(&message) {
            Ok((spec, input)) => {
                self.0.predict(ask.into(), &spec, &head.headers, &Payload::Examples(method, &input));
            }
            Err(status) => self.0.refuse(ask.into(), None, &status),
        }
    }

    fn multi_inference(&self, call: GrpcCall) {
        let (head, message, ask) = self.open(call);
        match MultiInferenceRequest::parse(&message) {
            Ok(request) => self.0.infer(ask, &head.headers, &request),
            Err(status) => self.0.refuse(ask.into(), None, &status),
        }
    }

    fn session_run(&self, call: GrpcCall) {
        let (head, message, ask) = self.open(call);
        match SessionRunRequest::parse(&message) {
            Ok(request) => {
                let spec = &request.inputs.spec;
                self.0.predict(ask.into(), spec, &head.headers, &Payload::Session(&request));
            }
            Err(status) => self.0.refuse(ask.into(), None, &status),
        }
    }

    fn predict(&self, call: GrpcCall) {
        let (head, message, ask) = self.open(call);
        match PredictRequest::parse(&message) {
            Ok(request) => self.0.predict(ask.into(), &request.spec, &head.headers, &Payload::Proto(&request)),
            Err(status) => self.0.refuse(ask.into(), None, &status),
        }
    }

    fn model_status(&self, call: GrpcCall) {
        let found = model_status::parse_request(&call.message).and_then(|spec| self.0.model_states(&spec));
        self.reply(call, found.map(|states| model_status::encode_response(&states)));
    }

    fn health(&self, call: GrpcCall) {
        let answer = grpc_health::check(&call.message, self.0.shared.readiness().ready);
        self.reply(call, answer);
    }

    fn watch_health(&self, call: GrpcCall) {
        let (id, readiness) = (self.id(&call), self.0.shared.watch_readiness());
        let metrics = self.0.shared.metrics.clone();
        tokio::spawn(async move {
            let code = grpc_health::watch(call, readiness, Tags { version: None, id: Some(&id) }).await;
            metrics.unrouted.count(Endpoint::Grpc, code);
        });
    }

    /// Answers a call that no version answers.
    fn reply(&self, call: GrpcCall, answer: Result<Vec<u8>, Status>) {
        let id = self.id(&call);
        let tags = Tags { version: None, id: Some(&id) };
        match answer {
            Ok(message) => {
                self.count(Code::Ok, &call);
                call.reply.succeed(predict_response::frame(&message), tags);
            }
            Err(status) => {
                self.count(status.code, &call);
                call.reply.fail(&status, tags);
            }
        }
    }

    fn metadata(&self, call: GrpcCall) {
        let id = self.id(&call);
        let found = metadata::parse_request(&call.message).and_then(|spec| self.0.model_version(&spec));
        match found {
            Ok(version) => {
                self.count(Code::Ok, &call);
                let tags = Tags { version: Some(&version.header), id: Some(&id) };
                call.reply.succeed(predict_response::frame(&metadata::encode_response(&version)), tags);
            }
            Err(status) => {
                self.count(status.code, &call);
                call.reply.fail(&status, Tags { version: None, id: Some(&id) });
            }
        }
    }

    fn ask_python(&self, method: &str, call: GrpcCall) {
        let id = self.id(&call);
        let asked = self.0.shared.control.ask(method, call.message.to_vec());
        let metrics = self.0.shared.metrics.clone();
        tokio::spawn(async move {
            let answer = control::wait(asked).await;
            let code = answer.as_ref().err().map_or(Code::Ok, |status| status.code);
            metrics.unrouted.count(Endpoint::Grpc, code);
            let tags = Tags { version: None, id: Some(&id) };
            match answer {
                Ok(message) => call.reply.succeed(predict_response::frame(&message), tags),
                Err(status) => call.reply.fail(&status, tags),
            }
        });
    }
}
