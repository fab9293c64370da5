//! The routes of the REST endpoint: what each path leads to, and TensorFlow Serving's, metrics and health themselves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{ALLOW, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tidegate_codec::inference::InferenceMethod;
use tidegate_codec::json::predict_request::{Form, JsonRequest};
use tidegate_codec::json::{examples, metadata, model_status};
use tidegate_codec::open_inference::health;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::memory::Reservation;
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::request::{Dispatcher, Reply, RequestContext, Tags};
use tidegate_engine::request_id::RequestId;
use tidegate_engine::trace_context::trace_of;
use tokio::sync::oneshot;

use crate::aside::LARGE;
use crate::endpoints::body::stays;
use crate::endpoints::examples::Examples;
use crate::endpoints::headers::ID_HEADER;
use crate::endpoints::rest::events::{EventAnswer, EventForm};
use crate::endpoints::rest::path::{self, Route, Target};
use crate::endpoints::rest::prediction::{Predict, RestReply};
use crate::endpoints::rest::service::{
    BodyUse, RestAnswer, RestCall, RestResponse, RestService, failure, text, with_body,
};
use crate::endpoints::rest::{cors, events};
use crate::endpoints::stream::StreamReply;
use crate::security::access::Grant;
use crate::security::gate::Need;
use crate::state::PlaneState;

const PATHS: &str = "POST /v1/models/NAME[/versions/V|/labels/L]:predict (or :classify, :regress), \
                     GET /v1/models/NAME[/versions/V|/labels/L], GET /v1/models/NAME/metadata, GET /metrics, GET /openapi.json, \
                     GET /, GET /v2, GET /v2/health/live, GET /v2/health/ready, GET /v2/models/NAME[/versions/V][/ready|/config], \
                     GET /v2/models, GET /v2/models[/NAME[/versions/V]]/stats, \
                     POST /v2/models/NAME[/versions/V]/infer (or /generate, /generate_stream), POST /v2/repository/index, \
                     POST /inference[/NAME[/versions/V|/labels/L]]";

/// The routes, answered by one I/O thread.
pub struct RestRoutes<R> {
    /// Where requests go.
    pub dispatcher: Arc<Dispatcher<R>>,
    /// Readiness, and how REST answers.
    pub state: Arc<PlaneState>,
}

impl<R: Reply + From<RestReply> + From<StreamReply>> RestService for RestRoutes<R> {
    fn reads_more(&self, path: &str) -> bool {
        !self.state.shared_memory.is_empty() && path.starts_with("/v2/models/")
    }

    fn any_origin(&self) -> bool {
        self.state.rest_cors
    }

    fn admit(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        names: &[String],
    ) -> Result<Option<Arc<Grant>>, Status> {
        if self.state.gate.is_open() {
            return Ok(None);
        }
        self.admit_to(&self.route(method.as_str(), path, headers), headers, names)
    }

    fn count_unread(&self, code: Code) {
        self.state.engine.metrics.unrouted.count(Endpoint::Rest, code);
    }

    fn use_of_body(&self, method: &Method, path: &str, headers: &HeaderMap) -> BodyUse {
        match self.route(method.as_str(), path, headers) {
            Ok(Route::Elsewhere(_) | Route::Unknown) | Err(_) => BodyUse::LeadsNowhere,
            Ok(route) if route.reads_body() => BodyUse::Read,
            Ok(_) => BodyUse::Useless,
        }
    }

    fn call(&self, call: RestCall, memory: &mut Option<Reservation>) -> RestAnswer {
        let id = RequestId::choose(call.head.headers.get(ID_HEADER), &self.state.engine.ids);
        match self.route(call.head.method.as_str(), call.head.uri.path(), &call.head.headers) {
            Ok(Route::Predict(target)) => self.predict(&call, &target, id),
            Ok(Route::Examples(method, target)) => self.examples(&call, memory, method, &target, id),
            Ok(Route::Status(target)) => RestAnswer::Ready(self.status(&call, &target, &id)),
            Ok(Route::Metadata(target)) => RestAnswer::Ready(self.metadata(&call, &target, &id)),
            Ok(Route::Metrics) => self.metrics(call.deadline),
            Ok(Route::Alive) => RestAnswer::Ready(with_body(StatusCode::OK, health::ALIVE.to_vec(), tags(&id))),
            Ok(Route::Live) => RestAnswer::Ready(with_body(StatusCode::OK, health::LIVE.to_vec(), tags(&id))),
            Ok(Route::Ready) => RestAnswer::Ready(self.ready(&id)),
            Ok(Route::Preflight) => RestAnswer::Ready(with_body(StatusCode::OK, Vec::new(), tags(&id))),
            Ok(Route::Methods(allowed)) => RestAnswer::Ready(methods(allowed, &id)),
            Ok(Route::ModelReady(target)) => RestAnswer::Ready(self.model_ready(&target, &id)),
            Ok(Route::Infer(target)) => self.infer(&call, &target),
            Ok(Route::Generate(target)) => self.generate(&call, &target, events::wanted(&call.head.headers), id),
            Ok(Route::GenerateStream(target)) => self.generate(&call, &target, true, id),
            Ok(Route::Inference(target)) => self.inference(&call, target, id),
            Ok(Route::ServerMetadata) => RestAnswer::Ready(self.server_metadata(&call, &id)),
            Ok(Route::InferConfig(target)) => RestAnswer::Ready(self.infer_config(&call, &target, &id)),
            Ok(Route::InferMetadata(target)) => RestAnswer::Ready(self.infer_metadata(&call, &target, &id)),
            Ok(Route::RepositoryIndex) => self.repository_index(&call, id),
            Ok(Route::ReadyModels) => self.ready_models(&call, id),
            Ok(Route::OpenApi) => self.openapi(&call, id),
            Ok(Route::Statistics(target)) => self.statistics(&call, target, id),
            Ok(Route::DeviceMemory(asked)) => RestAnswer::Ready(self.device_memory(&call, &asked, &id)),
            Ok(Route::SharedMemory(asked)) => RestAnswer::Ready(self.shared_memory(&call, asked, &id)),
            Ok(Route::Elsewhere(elsewhere)) => RestAnswer::Ready(self.fail(&call, &elsewhere.refusal(), &id)),
            Ok(Route::Unknown) => {
                let status = unknown(&call.head.method, call.head.uri.path());
                RestAnswer::Ready(self.fail(&call, &status, &id))
            }
            Err(status) => RestAnswer::Ready(self.fail(&call, &status, &id)),
        }
    }
}

impl<R: Reply + From<RestReply> + From<StreamReply>> RestRoutes<R> {
    fn route(&self, method: &str, path: &str, headers: &HeaderMap) -> Result<Route, Status> {
        if self.state.rest_cors
            && method == "OPTIONS"
            && path != "*"
            && let Some(origin) = headers.get(ORIGIN)
        {
            return cors::check_preflight(origin).map(|()| Route::Preflight);
        }
        match method {
            "GET" | "HEAD" if self.state.metrics_path.as_deref() == Some(path) => Ok(Route::Metrics),
            "OPTIONS" if self.state.metrics_path.as_deref() == Some(path) => Ok(Route::Methods(path::LOOKED_AT)),
            _ => path::parse(method, path),
        }
    }

    /// What whoever asks for a route may do. A path that means nothing is answered to those who are let in alone.
    fn admit_to(
        &self,
        route: &Result<Route, Status>,
        headers: &HeaderMap,
        names: &[String],
    ) -> Result<Option<Arc<Grant>>, Status> {
        let need = match route {
            Ok(Route::Alive | Route::Live | Route::Ready | Route::Preflight | Route::Methods(_)) => return Ok(None),
            Ok(Route::Metrics) => Need::LOOK,
            _ => Need::PREDICT,
        };
        let grant = self.state.gate.admit(headers, names, need)?;
        match (&grant, route.as_ref().ok().and_then(Route::target)) {
            (Some(grant), Some(target)) => grant.check_model(&target.name).map(|()| Some(grant.clone())),
            _ => Ok(grant),
        }
    }

    pub(crate) fn count(&self, code: Code, call: &RestCall) {
        call.observation.note(|facts| facts.code = Some(code));
        self.state.engine.metrics.unrouted.count(Endpoint::Rest, code);
        self.state.engine.metrics.count_latency(Endpoint::Rest, call.received.elapsed());
    }

    pub(crate) fn fail(&self, call: &RestCall, status: &Status, id: &RequestId) -> RestResponse {
        self.count(status.code, call);
        failure(status, tags(id))
    }

    /// All metrics, once they are written.
    fn metrics(&self, deadline: Instant) -> RestAnswer {
        let (mut sender, later) = oneshot::channel();
        let state = self.state.clone();
        tokio::spawn(async move {
            let with_theirs = state.metrics_path.is_some();
            let page = tokio::select! {
                page = state.metrics_page.get(&state.engine, with_theirs, &state.aside, deadline) => page,
                () = sender.closed() => return,
            };
            let _ = sender.send(match page {
                Ok(page) => text(StatusCode::OK, page, "text/plain; version=0.0.4; charset=utf-8"),
                Err(status) => failure(&status, Tags::default()),
            });
        });
        RestAnswer::Later(later)
    }

    fn predict(&self, call: &RestCall, target: &Target, id: RequestId) -> RestAnswer {
        match JsonRequest::parse(&call.body) {
            Ok(request) => {
                let (spec, headers) = (target.spec(&request.signature_name), &call.head.headers);
                if events::wanted(headers) {
                    let (reply, answer) =
                        self.open_events(call, EventForm::Predict(request.form), self.patience(), &id);
                    self.dispatcher.dispatch(context(call, reply, id), &spec, headers, &Predict::new(&request));
                    return answer;
                }
                let (reply, answer) = RestReply::new(request.form, call);
                self.dispatcher.dispatch(context(call, reply, id), &spec, headers, &Predict::new(&request));
                answer
            }
            Err(status) => RestAnswer::Ready(self.fail(call, &status, &id)),
        }
    }

    /// How long each event is waited for, where the request does not say until when all of them are to come.
    pub(crate) fn patience(&self) -> Option<Duration> {
        Some(self.state.engine.limits.request_timeout())
    }

    /// A reply whose messages are sent as events.
    pub(crate) fn open_events(
        &self,
        call: &RestCall,
        form: EventForm,
        patience: Option<Duration>,
        id: &RequestId,
    ) -> (StreamReply, RestAnswer) {
        let takes_single = matches!(form, EventForm::Generate);
        let (reply, answer) = StreamReply::open(Endpoint::Rest, patience, takes_single, &call.observation);
        let (id, observation) = (id.clone(), call.observation.clone());
        let keepalive = self.state.event_keepalive;
        (reply, RestAnswer::Events(Box::new(EventAnswer { answer, form, id, observation, keepalive })))
    }

    fn examples(
        &self,
        call: &RestCall,
        memory: &mut Option<Reservation>,
        method: InferenceMethod,
        target: &Target,
        id: RequestId,
    ) -> RestAnswer {
        match examples::parse(&call.body) {
            Ok((signature_name, input)) => {
                let (reply, answer) = RestReply::new(Form::Row, call);
                let context = context(call, reply, id);
                if input.with_context() > LARGE {
                    match stays(memory.take(), &call.body, || call.lifeline.share(&self.state.engine.limits.memory)) {
                        Ok(memory) => self.leave((input.with_context(), memory), context, call, method, target.clone()),
                        Err(status) => self.dispatcher.refuse(context, None, &status),
                    }
                    return answer;
                }
                let (spec, payload) = (target.spec(&signature_name), Examples::new(method, &input));
                self.dispatcher.dispatch(context, &spec, &call.head.headers, &payload);
                answer
            }
            Err(status) => RestAnswer::Ready(self.fail(call, &status, &id)),
        }
    }

    /// Has examples read aside that become so many bytes with their context, unless their client goes before; they count as
    /// they came until then.
    fn leave(
        &self,
        (bytes, memory): (usize, Reservation),
        mut context: RequestContext<RestReply>,
        call: &RestCall,
        method: InferenceMethod,
        target: Target,
    ) {
        let (dispatcher, state) = (self.dispatcher.clone(), self.state.clone());
        let (headers, body) = (call.head.headers.clone(), call.body.clone());
        tokio::spawn(async move {
            match state.aside.turn_by(bytes, context.deadline).await {
                Ok(turn) => turn.begin(move || {
                    if context.is_gone() {
                        return dispatcher.refuse(context, None, &given_up(&target.name));
                    }
                    match examples::parse(&body) {
                        Ok((signature_name, input)) => {
                            let (spec, payload) = (target.spec(&signature_name), Examples::new(method, &input));
                            dispatcher.dispatch(context, &spec, &headers, &payload);
                        }
                        Err(status) => dispatcher.refuse(context, None, &status),
                    }
                    drop(memory);
                }),
                Err(status) => dispatcher.refuse(context, None, &status),
            }
        });
    }

    fn status(&self, call: &RestCall, target: &Target, id: &RequestId) -> RestResponse {
        match self.state.engine.version_states(&target.spec("")) {
            Ok(states) => {
                self.count(Code::Ok, call);
                with_body(StatusCode::OK, model_status::to_json(&states), tags(id))
            }
            Err(status) => self.fail(call, &status, id),
        }
    }

    fn metadata(&self, call: &RestCall, target: &Target, id: &RequestId) -> RestResponse {
        match self.state.engine.version(&target.spec("")) {
            Ok(version) => {
                self.count(Code::Ok, call);
                let tags = Tags { version: Some(&version.header), id: Some(id) };
                with_body(StatusCode::OK, metadata::to_json(&version.metadata()), tags)
            }
            Err(status) => self.fail(call, &status, id),
        }
    }

    /// Whether a predict request for this model would find a version.
    fn model_ready(&self, target: &Target, id: &RequestId) -> RestResponse {
        let found = self.state.engine.version(&target.spec(""));
        let (code, why) = match &found {
            Ok(_) => (StatusCode::OK, None),
            Err(status) => {
                let code = StatusCode::from_u16(status.code.http()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
                (code, Some(status.message.as_str()))
            }
        };
        let version = found.as_ref().ok().map(|version| &version.header);
        with_body(code, health::model_ready_json(&target.name, why), Tags { version, id: Some(id) })
    }

    fn ready(&self, id: &RequestId) -> RestResponse {
        let readiness = self.state.readiness();
        let code = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        with_body(code, health::ready_json(readiness.ready, &readiness.reason), tags(id))
    }
}

/// What a client reads that closed its side while its examples waited to be read.
fn given_up(model: &str) -> Status {
    Status::new(
        Code::Cancelled,
        format!(
            "the examples for model '{model}' still waited to be read when their client closed its side of the connection, \
             which counts as having gone: keep it open until the answer comes"
        ),
    )
}

fn unknown(method: &Method, path: &str) -> Status {
    Status::not_found(format!("no such path: {method} {path}; there are {PATHS}"))
}

/// The methods that a path has, or some path.
fn methods(allowed: &'static str, id: &RequestId) -> RestResponse {
    let mut response = with_body(StatusCode::OK, Vec::new(), tags(id));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

fn tags(id: &RequestId) -> Tags<'_> {
    Tags { version: None, id: Some(id) }
}

/// What goes with a request to the engine.
pub(crate) fn context<Q>(call: &RestCall, reply: Q, id: RequestId) -> RequestContext<Q> {
    let RestCall { received, deadline, .. } = *call;
    RequestContext { reply, id, trace: trace_of(&call.head.headers), received, deadline, bytes: call.body.len() }
}
