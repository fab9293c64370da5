//! The Open Inference Protocol over REST: what its paths lead to.

use std::future::Future;

use http::{HeaderMap, StatusCode};
use tidegate_codec::json::predict_request::Form;
use tidegate_codec::model_spec::ModelSpec;
use tidegate_codec::open_inference::config::ModelConfig;
use tidegate_codec::open_inference::extensions::Elsewhere;
use tidegate_codec::open_inference::metadata::ModelDescription;
use tidegate_codec::open_inference::{index, json_request, metadata, shared_memory, statistics};
use tidegate_codec::status::{Code, Status};
use tidegate_engine::engine::Engine;
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::request::{Reply, RequestContext, Tags};
use tidegate_engine::request_id::RequestId;
use tidegate_engine::serving_map::Version;
use tokio::sync::oneshot;

use crate::endpoints::body::kept;
use crate::endpoints::headers::ID_HEADER;
use crate::endpoints::open_inference::{
    self, Infer, SERVER_VERSION, choose_id, configure, describe, list, open_places,
};
use crate::endpoints::rest::events::{self, EventForm};
use crate::endpoints::rest::infer_response::JSON_LENGTH;
use crate::endpoints::rest::path::{RegionCall, Target};
use crate::endpoints::rest::prediction::RestReply;
use crate::endpoints::rest::routes::{RestRoutes, context};
use crate::endpoints::rest::service::{RestAnswer, RestCall, RestResponse, failure, with_body, with_bytes};
use crate::endpoints::stream::StreamReply;
use crate::pages::{About, Written};
use crate::security::access::Grant;
use crate::security::gate::granted;

impl<R: Reply + From<RestReply> + From<StreamReply>> RestRoutes<R> {
    /// Predicts.
    pub(crate) fn infer(&self, call: &RestCall, target: &Target) -> RestAnswer {
        let ids = &self.state.engine.ids;
        let length = json_length(&call.head.headers, call.body.len());
        let parsed = length.and_then(|length| {
            let mut request = json_request::parse(&call.body, length)?;
            open_places(&self.state, &mut request)?;
            Ok(request)
        });
        let own = parsed.as_ref().ok().map(|request| request.id.as_ref());
        let id = choose_id(call.head.headers.get(ID_HEADER), own, ids);
        match parsed {
            Ok(request) => {
                let (named, headers) = (target.spec(""), &call.head.headers);
                let spec = request.spec(named.name, named.choice);
                let deadline = request.deadline(call.received, call.deadline);
                if events::wanted(headers) {
                    if let Err(status) = request.check_all_json() {
                        return RestAnswer::Ready(self.fail(call, &status, &id));
                    }
                    let patience = request.patience(self.patience());
                    let (reply, answer) = self.open_events(call, EventForm::Infer, patience, &id);
                    let context = RequestContext { deadline, ..context(call, reply, id) };
                    self.dispatcher.dispatch(context, &spec, headers, &Infer::new(&request));
                    return answer;
                }
                let (reply, answer) = RestReply::new(Form::Columnar, call);
                let context = RequestContext { deadline, ..context(call, reply, id) };
                self.dispatcher.dispatch(context, &spec, headers, &Infer::new(&request));
                answer
            }
            Err(status) => RestAnswer::Ready(self.fail(call, &status, &id)),
        }
    }

    /// Name, version and extensions of the server.
    pub(crate) fn server_metadata(&self, call: &RestCall, id: &RequestId) -> RestResponse {
        self.count(Code::Ok, call);
        let about = metadata::server_json(SERVER_VERSION, self.state.shared_memory.is_allowed());
        with_body(StatusCode::OK, about, Tags { version: None, id: Some(id) })
    }

    /// A model's versions and tensors.
    pub(crate) fn infer_metadata(&self, call: &RestCall, target: &Target, id: &RequestId) -> RestResponse {
        let tell = |version: &Version, description: &ModelDescription<'_>| json(version, description.json(), id);
        self.told(call, describe(&self.state.engine, &target.spec(""), tell), id)
    }

    /// How a model is called, in Triton's form.
    pub(crate) fn infer_config(&self, call: &RestCall, target: &Target, id: &RequestId) -> RestResponse {
        let tell = |version: &Version, config: &ModelConfig<'_>| json(version, config.json(), id);
        self.told(call, configure(&self.state.engine, &target.spec(""), tell), id)
    }

    /// What is asked of the registered regions of shared memory.
    pub(crate) fn shared_memory(&self, call: &RestCall, asked: RegionCall, id: &RequestId) -> RestResponse {
        let regions = &self.state.shared_memory;
        let answer = match asked {
            RegionCall::Status(name) => regions.list(&name).map(|found| shared_memory::status_json(&found)),
            RegionCall::Register(name) => json_request::parse_registration(name, &call.body)
                .and_then(|registration| regions.register(registration))
                .map(|()| Vec::new()),
            RegionCall::Unregister(name) => {
                regions.unregister(&name);
                Ok(Vec::new())
            }
        };
        self.told(call, answer.map(|body| with_body(StatusCode::OK, body, Tags { version: None, id: Some(id) })), id)
    }

    /// The same of devices' memory: none is registered, and none can be.
    pub(crate) fn device_memory(&self, call: &RestCall, asked: &RegionCall, id: &RequestId) -> RestResponse {
        let answer = match asked {
            RegionCall::Status(_) => Ok(shared_memory::status_json(&[])),
            RegionCall::Unregister(_) => Ok(Vec::new()),
            RegionCall::Register(_) => Err(Elsewhere::SharedMemory.refusal()),
        };
        self.told(call, answer.map(|body| with_body(StatusCode::OK, body, Tags { version: None, id: Some(id) })), id)
    }

    fn told(&self, call: &RestCall, answer: Result<RestResponse, Status>, id: &RequestId) -> RestResponse {
        match answer {
            Ok(response) => {
                self.count(Code::Ok, call);
                response
            }
            Err(status) => self.fail(call, &status, id),
        }
    }

    /// Lists all models.
    pub(crate) fn repository_index(&self, call: &RestCall, id: RequestId) -> RestAnswer {
        match index::parse_json(&call.body) {
            Ok(ready) => self.page(call, id, About::Index { ready }, move |engine, grant| {
                Ok(index::json(&list(engine, grant, ready)))
            }),
            Err(status) => RestAnswer::Ready(self.fail(call, &status, &id)),
        }
    }

    /// The names of all models that are ready.
    pub(crate) fn ready_models(&self, call: &RestCall, id: RequestId) -> RestAnswer {
        self.page(call, id, About::Names, |engine, grant| Ok(index::names_json(&list(engine, grant, true))))
    }

    /// The endpoint itself, and how the models are called that somebody may know.
    pub(crate) fn openapi(&self, call: &RestCall, id: RequestId) -> RestAnswer {
        let secured = !self.state.gate.is_open();
        self.page(call, id, About::OpenApi, move |engine, grant| Ok(open_inference::openapi(engine, grant, secured)))
    }

    /// What a model was asked, or all of them.
    pub(crate) fn statistics(&self, call: &RestCall, target: Option<Target>, id: RequestId) -> RestAnswer {
        let told = |engine: &Engine, grant: Option<&Grant>, spec: &ModelSpec<'_>| {
            open_inference::statistics(engine, grant, spec).map(|all| statistics::json(&all))
        };
        let Some(target) = target else {
            return self
                .page(call, id, About::Statistics, move |engine, grant| told(engine, grant, &ModelSpec::default()));
        };
        let (state, deadline, grant) = (self.state.clone(), call.deadline, granted(&call.head).cloned());
        self.later(call, id, async move {
            let engine = state.engine.clone();
            let work = move || told(&engine, grant.as_deref(), &target.spec("")).and_then(|body| alone(body, &engine));
            state.aside.run(0, deadline, work).await.and_then(|written| written)
        })
    }

    /// Answers with JSON about all models, of which there may be thousands, so that it is written aside.
    fn page(
        &self,
        call: &RestCall,
        id: RequestId,
        about: About,
        write: impl FnOnce(&Engine, Option<&Grant>) -> Result<Vec<u8>, Status> + Send + 'static,
    ) -> RestAnswer {
        let (state, deadline, grant) = (self.state.clone(), call.deadline, granted(&call.head).cloned());
        self.later(call, id, async move {
            let engine = state.engine.clone();
            let write = move |grant: Option<&Grant>| write(&engine, grant).and_then(|body| alone(body, &engine));
            state.pages.get(&state.aside, (about, Endpoint::Rest), grant, deadline, write).await
        })
    }

    /// Answers with JSON that is written aside, unless its client goes before.
    fn later(
        &self,
        call: &RestCall,
        id: RequestId,
        written: impl Future<Output = Written> + Send + 'static,
    ) -> RestAnswer {
        let (mut sender, later) = oneshot::channel();
        let (state, received, observation) = (self.state.clone(), call.received, call.observation.clone());
        tokio::spawn(async move {
            let written = tokio::select! {
                written = written => written,
                () = sender.closed() => return,
            };
            let code = written.as_ref().err().map_or(Code::Ok, |status| status.code);
            observation.note(|facts| facts.code = Some(code));
            state.engine.metrics.unrouted.count(Endpoint::Rest, code);
            state.engine.metrics.count_latency(Endpoint::Rest, received.elapsed());
            let tags = Tags { version: None, id: Some(&id) };
            let _ = sender.send(match written {
                Ok(body) => with_bytes(StatusCode::OK, body, tags),
                Err(status) => failure(&status, tags),
            });
        });
        RestAnswer::Later(later)
    }
}

/// A page, which counts once, however many have it.
fn alone(body: Vec<u8>, engine: &Engine) -> Written {
    kept(body.into(), &engine.limits.memory.of_connection())
}

fn json(version: &Version, body: Vec<u8>, id: &RequestId) -> RestResponse {
    with_body(StatusCode::OK, body, Tags { version: Some(&version.header), id: Some(id) })
}

/// How many bytes of a body are JSON: what its header says, or all.
fn json_length(headers: &HeaderMap, all: usize) -> Result<usize, Status> {
    let Some(sent) = headers.get(JSON_LENGTH) else { return Ok(all) };
    let length = sent.to_str().ok().and_then(|text| text.parse().ok());
    length.ok_or_else(|| {
        let sent = String::from_utf8_lossy(sent.as_bytes());
        Status::invalid(format!("Inference-Header-Content-Length is '{sent}': send the number of bytes of JSON"))
    })
}
