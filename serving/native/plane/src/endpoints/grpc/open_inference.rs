//! The methods of `inference.GRPCInferenceService`, the Open Inference Protocol over gRPC.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tidegate_codec::open_inference::{index, message, metadata, shared_memory, statistics};
use tidegate_codec::protobuf::frame::frame;
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::Lender;
use tidegate_engine::engine::Engine;
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::request::{Reply, Tags};

use crate::endpoints::grpc::fan_in::TaskReply;
use crate::endpoints::grpc::infer_methods::Method;
use crate::endpoints::grpc::methods::GrpcMethods;
use crate::endpoints::grpc::prediction::PredictionReply;
use crate::endpoints::grpc::service::GrpcCall;
use crate::endpoints::headers::ID_HEADER;
use crate::endpoints::open_inference::{
    self, Infer, SERVER_VERSION, choose_id, configure, describe, list, open_places,
};
use crate::endpoints::stream::StreamReply;
use crate::pages::{About, Written};
use crate::security::access::Grant;
use crate::security::gate::{check_model, granted};
use crate::state::PlaneState;

impl<R: Reply + From<PredictionReply> + From<TaskReply> + From<StreamReply>> GrpcMethods<R> {
    /// Answers a call of the service.
    pub(crate) fn open_inference(&self, method: Method, call: GrpcCall) {
        let engine = &self.state.engine;
        let answer = match method {
            Method::ModelInfer => return self.infer(call),
            Method::RepositoryIndex | Method::ModelStatistics => return self.list(method, call),
            Method::ServerLive => Ok(metadata::truth(true)),
            Method::ServerReady => Ok(metadata::truth(self.state.readiness().ready)),
            Method::ModelReady => metadata::parse_request(&call.message).and_then(|spec| {
                check_model(&call.head, spec.name)?;
                Ok(metadata::truth(engine.version(&spec).is_ok()))
            }),
            Method::ServerMetadata => {
                Ok(metadata::server_message(SERVER_VERSION, self.state.shared_memory.is_allowed()))
            }
            Method::ModelMetadata => metadata::parse_request(&call.message).and_then(|spec| {
                check_model(&call.head, spec.name)?;
                describe(engine, &spec, |_, description| description.message())
            }),
            Method::ModelConfig => metadata::parse_request(&call.message).and_then(|spec| {
                check_model(&call.head, spec.name)?;
                configure(engine, &spec, |_, config| config.message())
            }),
            Method::SharedMemoryStatus => shared_memory::parse_name(&call.message)
                .and_then(|name| Ok(shared_memory::status_message(&self.state.shared_memory.list(&name)?))),
            Method::SharedMemoryRegister => shared_memory::parse_register(&call.message)
                .and_then(|registration| self.state.shared_memory.register(registration))
                .map(|()| Vec::new()),
            Method::SharedMemoryUnregister => shared_memory::parse_name(&call.message)
                .map(|name| self.state.shared_memory.unregister(&name))
                .map(|()| Vec::new()),
            Method::NoDeviceMemory => Ok(Vec::new()),
            Method::Elsewhere(elsewhere) => Err(elsewhere.refusal()),
            Method::ModelStreamInfer => Err(Status::internal("a stream of requests came as a single one")),
        };
        self.reply(call, None, answer);
    }

    fn infer(&self, call: GrpcCall) {
        let message = call.message.clone();
        let mut parsed = message::parse(&message);
        if let Ok(infer) = &mut parsed
            && let Err(status) = open_places(&self.state, &mut infer.request)
        {
            parsed = Err(status);
        }
        let own = parsed.as_ref().ok().map(|infer| infer.request.id.as_ref());
        let id = choose_id(call.head.headers.get(ID_HEADER), own, &self.state.engine.ids);
        let (head, _, mut context) = self.open_as(call, id);
        match parsed {
            Ok(mut infer) => {
                infer.request.lender = Lender(Some(&message));
                context.deadline = infer.request.deadline(context.received, context.deadline);
                let spec = infer.request.spec(infer.name, infer.choice);
                self.dispatch(&head, context, &spec, &Infer::new(&infer.request));
            }
            Err(status) => self.dispatcher.refuse(context, None, &status),
        }
    }

    /// Lists models or their statistics, aside since there may be thousands.
    fn list(&self, method: Method, mut call: GrpcCall) {
        let (state, id, grant) = (self.state.clone(), self.id(&call), granted(&call.head).cloned());
        tokio::spawn(async move {
            let answer = tokio::select! {
                answer = listed(&state, method, &call.message, grant, call.deadline) => answer,
                () = call.reply.gone() => return,
            };
            // What nobody reads may be much, of many calls.
            let answer = answer.and_then(|answer| call.reply.keep(answer));
            let tags = Tags { version: None, id: Some(&id) };
            let metrics = &state.engine.metrics;
            metrics.unrouted.count(Endpoint::Grpc, answer.as_ref().err().map_or(Code::Ok, |status| status.code));
            metrics.count_latency(Endpoint::Grpc, call.received.elapsed());
            match answer {
                Ok(answer) => call.reply.succeed(answer, tags),
                Err(status) => call.reply.fail(&status, tags),
            }
        });
    }
}

/// The answer to a request for a list, in its frame.
async fn listed(
    state: &Arc<PlaneState>,
    method: Method,
    message: &Bytes,
    grant: Option<Arc<Grant>>,
    deadline: Instant,
) -> Written {
    let (engine, message) = (state.engine.clone(), message.clone());
    let about = match method {
        Method::ModelStatistics if metadata::parse_request(&message)?.name.is_empty() => About::Statistics,
        Method::ModelStatistics => {
            let work = move || statistics_message(&engine, grant.as_deref(), &message);
            return state.aside.run(0, deadline, work).await.and_then(|answer| answer);
        }
        _ => About::Index { ready: index::parse_message(&message)? },
    };
    let write = move |grant: Option<&Grant>| match about {
        About::Index { ready } => Ok(frame(&index::message(&list(&engine, grant, ready)))),
        _ => statistics_message(&engine, grant, &message),
    };
    state.pages.get(&state.aside, (about, Endpoint::Grpc), grant, deadline, write).await
}

fn statistics_message(engine: &Engine, grant: Option<&Grant>, message: &[u8]) -> Written {
    let spec = metadata::parse_request(message)?;
    if let Some(grant) = grant.filter(|_| !spec.name.is_empty()) {
        grant.check_model(spec.name)?;
    }
    Ok(frame(&statistics::message(&open_inference::statistics(engine, grant, &spec)?)))
}
