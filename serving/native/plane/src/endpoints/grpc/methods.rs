//! The methods of the gRPC services: which are answered here and which Python answers.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, request};
use tidegate_codec::inference::InferenceMethod;
use tidegate_codec::model_spec::ModelSpec;
use tidegate_codec::protobuf::frame::frame;
use tidegate_codec::protobuf::multi_inference::MultiInferenceRequest;
use tidegate_codec::protobuf::predict::PredictRequest;
use tidegate_codec::protobuf::session_run::SessionRunRequest;
use tidegate_codec::protobuf::{examples, metadata, model_status, wire};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::Lender;
use tidegate_engine::memory::Reservation;
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::request::{Dispatcher, Payload, Reply, RequestContext, Tags};
use tidegate_engine::request_id::RequestId;
use tidegate_engine::serving_map::Version;
use tidegate_engine::trace_context::trace_of;

use crate::aside::LARGE;
use crate::control;
use crate::endpoints::body::stays;
use crate::endpoints::examples::Examples;
use crate::endpoints::grpc::conversation::Conversation;
use crate::endpoints::grpc::fan_in::TaskReply;
use crate::endpoints::grpc::prediction::{Predict, PredictionReply, SessionRun};
use crate::endpoints::grpc::service::{GrpcCall, GrpcService};
use crate::endpoints::grpc::{health, infer_methods, infer_stream, multi_inference, reflection};
use crate::endpoints::headers::ID_HEADER;
use crate::endpoints::stream::StreamReply;
use crate::security::access::Grant;
use crate::security::gate::{Need, check_model};
use crate::state::PlaneState;

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

/// What a method needs; none where anybody may call it.
fn need_of(path: &str) -> Option<Need> {
    if health::METHODS.contains(&path)
        || infer_methods::method(path).is_some_and(infer_methods::Method::is_about_health)
    {
        return None;
    }
    Some(if control::METHODS.contains(&path) { Need::OPERATE } else { Need::PREDICT })
}

fn is_known(path: &str) -> bool {
    METHODS.contains(&path)
        || infer_methods::method(path).is_some()
        || health::METHODS.contains(&path)
        || reflection::METHODS.contains(&path)
        || control::METHODS.contains(&path)
}

fn is_infer_stream(path: &str) -> bool {
    infer_methods::method(path) == Some(infer_methods::Method::ModelStreamInfer)
}

fn unknown(path: &str) -> Status {
    Status::new(Code::Unimplemented, format!("unknown method {path}"))
}

/// The methods, answered by one I/O thread.
pub struct GrpcMethods<R> {
    /// Where requests go.
    pub dispatcher: Arc<Dispatcher<R>>,
    /// Readiness and control calls.
    pub state: Arc<PlaneState>,
}

impl<R: Reply + From<PredictionReply> + From<TaskReply> + From<StreamReply>> GrpcService for GrpcMethods<R> {
    fn is_about_health(&self, path: &str) -> bool {
        health::METHODS.contains(&path)
    }

    fn reads_more(&self, path: &str) -> bool {
        !self.state.shared_memory.is_empty() && infer_methods::method(path) == Some(infer_methods::Method::ModelInfer)
    }

    /// Where its model has sequences, whose requests belong together.
    fn keeps_order(&self, path: &str, message: Option<&[u8]>) -> bool {
        let infers = infer_methods::method(path) == Some(infer_methods::Method::ModelInfer);
        if !infers && path != PREDICT && path != SESSION_RUN {
            return false;
        }
        let map = self.state.engine.map.load();
        let Some(message) = message else {
            return map.versions().any(|version| version.has_sequences());
        };
        let first = wire::first(message, 1).unwrap_or_default();
        let name = if infers { first } else { wire::first(first, 1).unwrap_or_default() };
        std::str::from_utf8(name).is_ok_and(|name| map.versions_of(name).any(|version| version.has_sequences()))
    }

    fn is_conversation(&self, path: &str) -> bool {
        reflection::METHODS.contains(&path) || is_infer_stream(path)
    }

    fn stays(&self, path: &str) -> bool {
        path == health::WATCH
            || control::METHODS.contains(&path)
            || infer_methods::method(path).is_some_and(infer_methods::Method::is_about_all)
    }

    fn converse(&self, call: Conversation) {
        if is_infer_stream(call.head.uri.path()) {
            let (dispatcher, state) = (self.dispatcher.clone(), self.state.clone());
            tokio::spawn(infer_stream::converse(call, dispatcher, state));
            return;
        }
        let (id, state) =
            (RequestId::choose(call.head.headers.get(ID_HEADER), &self.state.engine.ids), self.state.clone());
        tokio::spawn(async move {
            let metrics = state.engine.metrics.clone();
            let code = reflection::converse(call, state, Tags { version: None, id: Some(&id) }).await;
            metrics.unrouted.count(Endpoint::Grpc, code);
        });
    }

    fn count_unread(&self, code: Code) {
        self.state.engine.metrics.unrouted.count(Endpoint::Grpc, code);
    }

    fn admit(&self, path: &str, headers: &HeaderMap, names: &[String]) -> Result<Option<Arc<Grant>>, Status> {
        // Before its message, which a stream may never end.
        let known = || if is_known(path) { Ok(()) } else { Err(unknown(path)) };
        match self.state.gate.is_open() {
            true => known().map(|()| None),
            false => match need_of(path) {
                None => Ok(None),
                Some(need) => self.state.gate.admit(headers, names, need).and_then(|grant| known().map(|()| grant)),
            },
        }
    }

    fn call(&self, call: GrpcCall, memory: &mut Option<Reservation>) {
        let path = call.head.uri.path();
        match path {
            PREDICT => return self.predict(call),
            CLASSIFY => return self.examples(call, InferenceMethod::Classify, Some(memory)),
            REGRESS => return self.examples(call, InferenceMethod::Regress, Some(memory)),
            MULTI_INFERENCE => return self.multi_inference(call, Some(memory)),
            SESSION_RUN => return self.session_run(call),
            METADATA => return self.metadata(call),
            MODEL_STATUS => return self.model_status(call),
            health::CHECK => {
                let answer = health::check(&call.message, self.state.readiness().ready);
                return self.reply(call, None, answer);
            }
            health::LIST => return self.reply(call, None, Ok(health::list(self.state.readiness().ready))),
            health::WATCH => return self.watch_health(call),
            _ => {}
        }
        if let Some(method) = infer_methods::method(path) {
            return self.open_inference(method, call);
        }
        match control::METHODS.iter().find(|method| **method == path) {
            Some(method) => self.call_python(method, call),
            None => {
                let status = unknown(path);
                self.reply(call, None, Err(status));
            }
        }
    }
}

impl<R: Reply + From<PredictionReply> + From<TaskReply> + From<StreamReply>> GrpcMethods<R> {
    pub(crate) fn id(&self, call: &GrpcCall) -> RequestId {
        RequestId::choose(call.head.headers.get(ID_HEADER), &self.state.engine.ids)
    }

    fn count(&self, code: Code, call: &GrpcCall) {
        self.state.engine.metrics.unrouted.count(Endpoint::Grpc, code);
        self.state.engine.metrics.count_latency(Endpoint::Grpc, call.received.elapsed());
    }

    /// The metadata, the message, and the way back.
    fn open(&self, call: GrpcCall) -> (request::Parts, Bytes, RequestContext<PredictionReply>) {
        let id = self.id(&call);
        self.open_as(call, id)
    }

    /// The same with the identity that the message gives.
    pub(crate) fn open_as(
        &self,
        call: GrpcCall,
        id: RequestId,
    ) -> (request::Parts, Bytes, RequestContext<PredictionReply>) {
        let GrpcCall { head, message, received, deadline, reply } = call;
        let (bytes, trace) = (message.len(), trace_of(&head.headers));
        (head, message, RequestContext { reply: reply.into(), id, trace, received, deadline, bytes })
    }

    /// Hands a request on, if whoever sent it may ask this model.
    pub(crate) fn dispatch<P: Payload>(
        &self,
        head: &request::Parts,
        context: RequestContext<P::Reply>,
        spec: &ModelSpec<'_>,
        payload: &P,
    ) where
        R: From<P::Reply>,
    {
        match check_model(head, spec.name) {
            Ok(()) => self.dispatcher.dispatch(context, spec, &head.headers, payload),
            Err(status) => self.dispatcher.refuse(context, None, &status),
        }
    }

    /// With the message's memory where it is read aside if the examples become large with their context.
    fn examples(&self, call: GrpcCall, method: InferenceMethod, memory: Option<&mut Option<Reservation>>) {
        let message = call.message.clone();
        match (examples::parse_request(&message), memory) {
            (Ok((_, input)), Some(memory)) if input.with_context() > LARGE => {
                let read = move |methods: &GrpcMethods<R>, call| methods.examples(call, method, None);
                self.leave(input.with_context(), call, memory.take(), read);
            }
            (Ok((spec, input)), _) => {
                let (head, _, context) = self.open(call);
                self.dispatch(&head, context, &spec, &Examples::new(method, &input));
            }
            (Err(status), _) => self.dispatcher.refuse(self.open(call).2, None, &status),
        }
    }

    /// Has a call read aside, as it becomes so many bytes, unless its client goes before; it counts as it came until then.
    fn leave(
        &self,
        bytes: usize,
        mut call: GrpcCall,
        memory: Option<Reservation>,
        read: impl FnOnce(&GrpcMethods<R>, GrpcCall) + Send + 'static,
    ) {
        let methods = GrpcMethods { dispatcher: self.dispatcher.clone(), state: self.state.clone() };
        let all = &self.state.engine.limits.memory;
        let own = call.reply.lifeline().map_or_else(|| all.of_connection(), |lifeline| lifeline.share(all).clone());
        let memory = match stays(memory, &call.message, || &own) {
            Ok(memory) => memory,
            Err(status) => return self.dispatcher.refuse(self.open(call).2, None, &status),
        };
        tokio::spawn(async move {
            let turn = tokio::select! {
                turn = methods.state.aside.turn_by(bytes, call.deadline) => turn,
                () = call.reply.gone() => return methods.count_unread(Code::Cancelled),
            };
            match turn {
                Ok(turn) => turn.begin(move || {
                    read(&methods, call);
                    drop(memory);
                }),
                Err(status) => methods.dispatcher.refuse(methods.open(call).2, None, &status),
            }
        });
    }

    fn multi_inference(&self, call: GrpcCall, memory: Option<&mut Option<Reservation>>) {
        let message = call.message.clone();
        let request = MultiInferenceRequest::parse(&message);
        if let Ok(request) = &request
            && let Some(memory) = memory
            && request.input.with_context() > LARGE
        {
            let read = |methods: &GrpcMethods<R>, call| methods.multi_inference(call, None);
            return self.leave(request.input.with_context(), call, memory.take(), read);
        }
        let (head, _, context) = self.open(call);
        match request {
            Ok(request) => match check_model(&head, request.spec().name) {
                Ok(()) => multi_inference::dispatch(&self.dispatcher, context, &head.headers, &request),
                Err(status) => self.dispatcher.refuse(context, None, &status),
            },
            Err(status) => self.dispatcher.refuse(context, None, &status),
        }
    }

    fn session_run(&self, call: GrpcCall) {
        let (head, message, context) = self.open(call);
        let parsed = SessionRunRequest::parse(&message);
        let meant = parsed.as_ref().ok().and_then(|request| self.state.engine.version(&request.inputs.spec).ok());
        match parsed.and_then(|request| session_run(request, meant.as_deref())) {
            Ok(request) => {
                self.dispatch(&head, context, &request.inputs.spec, &SessionRun(&request));
            }
            Err(status) => self.dispatcher.refuse(context, None, &status),
        }
    }

    fn predict(&self, call: GrpcCall) {
        let (head, message, context) = self.open(call);
        match PredictRequest::parse(&message) {
            Ok(mut request) => {
                request.lender = Lender(Some(&message));
                self.dispatch(&head, context, &request.spec, &Predict(&request, self.state.numbers));
            }
            Err(status) => self.dispatcher.refuse(context, None, &status),
        }
    }

    fn model_status(&self, call: GrpcCall) {
        let spec = model_status::parse_request(&call.message);
        let found = spec.and_then(|spec| {
            check_model(&call.head, spec.name)?;
            self.state.engine.version_states(&spec)
        });
        self.reply(call, None, found.map(|states| model_status::encode_response(&states)));
    }

    fn watch_health(&self, call: GrpcCall) {
        let (id, readiness) = (self.id(&call), self.state.watch_readiness());
        let metrics = self.state.engine.metrics.clone();
        tokio::spawn(async move {
            let code = health::watch(call, readiness, Tags { version: None, id: Some(&id) }).await;
            metrics.unrouted.count(Endpoint::Grpc, code);
        });
    }

    /// Answers a call that needs no batch.
    pub(crate) fn reply(&self, call: GrpcCall, version: Option<&HeaderValue>, answer: Result<Vec<u8>, Status>) {
        let id = self.id(&call);
        let tags = Tags { version, id: Some(&id) };
        self.count(answer.as_ref().err().map_or(Code::Ok, |status| status.code), &call);
        match answer {
            Ok(message) => call.reply.succeed(frame(&message), tags),
            Err(status) => call.reply.fail(&status, tags),
        }
    }

    fn metadata(&self, call: GrpcCall) {
        let spec = metadata::parse_request(&call.message);
        let found = spec.and_then(|spec| {
            check_model(&call.head, spec.name)?;
            self.state.engine.version(&spec)
        });
        let version = found.as_ref().ok().map(|version| version.header.clone());
        self.reply(call, version.as_ref(), found.map(|version| metadata::encode_response(&version.metadata())));
    }

    fn call_python(&self, method: &str, mut call: GrpcCall) {
        let id = self.id(&call);
        let waiting = self.state.control.call(method, call.message.clone());
        let metrics = self.state.engine.metrics.clone();
        tokio::spawn(async move {
            let answer = control::wait(waiting, call.reply.gone()).await;
            let code = answer.as_ref().err().map_or(Code::Ok, |status| status.code);
            metrics.unrouted.count(Endpoint::Grpc, code);
            let tags = Tags { version: None, id: Some(&id) };
            match answer {
                Ok(message) => call.reply.succeed(frame(&message), tags),
                Err(status) => call.reply.fail(&status, tags),
            }
        });
    }
}

/// The request with its tensors called as a signature of the version does that is meant.
fn session_run<'a>(
    mut request: SessionRunRequest<'a>,
    meant: Option<&'a Version>,
) -> Result<SessionRunRequest<'a>, Status> {
    let Some(version) = meant else { return Ok(request) };
    match &version.description {
        Some(own) if !version.queues.iter().any(|queue| request.maps_onto(queue.signature())) => {
            request.name_tensors(&own.message)?;
        }
        _ => {}
    }
    Ok(request)
}
