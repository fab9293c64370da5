//! The methods of `inference.GRPCInferenceService`, the Open Inference Protocol over gRPC.

use tidegate_codec::open_inference::{index, message, metadata};
use tidegate_codec::protobuf::frame::frame;
use tidegate_codec::status::Code;
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::request::{Reply, Tags};

use crate::aside::LARGE;
use crate::endpoints::grpc::fan_in::TaskReply;
use crate::endpoints::grpc::infer_methods::Method;
use crate::endpoints::grpc::methods::GrpcMethods;
use crate::endpoints::grpc::prediction::PredictionReply;
use crate::endpoints::grpc::service::GrpcCall;
use crate::endpoints::headers::ID_HEADER;
use crate::endpoints::open_inference::{Infer, SERVER_VERSION, choose_id, describe, list, no_loading};

impl<R: Reply + From<PredictionReply> + From<TaskReply>> GrpcMethods<R> {
    /// Answers a call of the service.
    pub(crate) fn open_inference(&self, method: Method, call: GrpcCall) {
        let engine = &self.state.engine;
        let answer = match method {
            Method::ModelInfer => return self.infer(call),
            Method::RepositoryIndex => return self.index(call),
            Method::ServerLive => Ok(metadata::truth(true)),
            Method::ServerReady => Ok(metadata::truth(self.state.readiness().ready)),
            Method::ModelReady => {
                metadata::parse_request(&call.message).map(|spec| metadata::truth(engine.version(&spec).is_ok()))
            }
            Method::ServerMetadata => Ok(metadata::server_message(SERVER_VERSION)),
            Method::ModelMetadata => metadata::parse_request(&call.message)
                .and_then(|spec| describe(engine, &spec, |_, description| description.message())),
            Method::RepositoryChange => Err(no_loading()),
        };
        self.reply(call, None, answer);
    }

    fn infer(&self, call: GrpcCall) {
        let message = call.message.clone();
        let parsed = message::parse(&message);
        let own = parsed.as_ref().ok().map(|infer| infer.request.id.as_ref());
        let id = choose_id(call.head.headers.get(ID_HEADER), own, &self.state.engine.ids);
        let (head, _, context) = self.open_as(call, id);
        match parsed {
            Ok(infer) => {
                let spec = infer.request.spec(infer.name, infer.choice);
                self.dispatcher.dispatch(context, &spec, &head.headers, &Infer::new(&infer.request));
            }
            Err(status) => self.dispatcher.refuse(context, None, &status),
        }
    }

    /// Lists all models, aside since there may be thousands.
    fn index(&self, call: GrpcCall) {
        let (state, id) = (self.state.clone(), self.id(&call));
        tokio::spawn(async move {
            let engine = state.engine.clone();
            let answer = match index::parse_message(&call.message) {
                Ok(ready) => state.aside.run(LARGE, call.deadline, move || index::message(&list(&engine, ready))).await,
                Err(status) => Err(status),
            };
            let tags = Tags { version: None, id: Some(&id) };
            let metrics = &state.engine.metrics;
            metrics.unrouted.count(Endpoint::Grpc, answer.as_ref().err().map_or(Code::Ok, |status| status.code));
            metrics.count_latency(Endpoint::Grpc, call.received.elapsed());
            match answer {
                Ok(message) => call.reply.succeed(frame(&message), tags),
                Err(status) => call.reply.fail(&status, tags),
            }
        });
    }
}
