//! The methods of TensorFlow Serving's gRPC services: which are answered here and which Python answers.
//! The gRPC door hands in complete calls; predict goes to the desk, metadata comes from the map, the rest is asked.

use std::sync::Arc;

use crate::ask::{Ask, Payload};
use crate::control;
use crate::desk::Desk;
use crate::grpc::{GrpcCall, GrpcService};
use crate::grpc_reply::{ID_HEADER, Tags};
use crate::inflight::Reply;
use crate::metadata;
use crate::metrics::Door;
use crate::predict_request::PredictRequest;
use crate::predict_response;
use crate::request_id::RequestId;
use crate::status::{Code, Status};

/// The predict method.
pub const PREDICT: &str = "/tensorflow.serving.PredictionService/Predict";
/// The metadata method.
pub const METADATA: &str = "/tensorflow.serving.PredictionService/GetModelMetadata";

/// The gRPC side of one desk.
pub struct GrpcMethods(pub Arc<Desk>);

impl GrpcService for GrpcMethods {
    fn call(&self, call: GrpcCall) {
        let path = call.head.uri.path();
        if path == PREDICT {
            return self.predict(call);
        }
        if path == METADATA {
            return self.metadata(call);
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
        self.0.shared.metrics.unrouted.count(Door::Grpc, code);
        self.0.shared.metrics.count_latency(Door::Grpc, call.received.elapsed());
    }

    fn predict(&self, call: GrpcCall) {
        let id = self.id(&call);
        let GrpcCall { head, message, received, deadline, reply } = call;
        let ask = Ask { reply: Reply::Grpc(reply), id, received, deadline };
        match PredictRequest::parse(&message) {
            Ok(request) => self.0.predict(ask, &request.spec, &head.headers, &Payload::Proto(&request)),
            Err(status) => self.0.refuse(ask, None, &status),
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
        let (asked, deadline) = control::ask(&self.0.shared, method, call.message.to_vec(), call.deadline);
        let metrics = self.0.shared.metrics.clone();
        tokio::spawn(async move {
            let answer = control::wait(asked, deadline).await;
            let code = answer.as_ref().err().map_or(Code::Ok, |status| status.code);
            metrics.unrouted.count(Door::Grpc, code);
            let tags = Tags { version: None, id: Some(&id) };
            match answer {
                Ok(message) => call.reply.succeed(predict_response::frame(&message), tags),
                Err(status) => call.reply.fail(&status, tags),
            }
        });
    }
}
