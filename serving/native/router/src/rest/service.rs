//! The REST endpoint of a router: requests whose path names a model go to a node that has it, all others are answered here, as
//! by an engine without models.

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode, Uri};
use tidegate_codec::status::{Code, Status};
use tidegate_engine::memory::Reservation;
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::request::Tags;
use tidegate_plane::endpoints::reply::AnyReply;
use tidegate_plane::endpoints::rest::inference::only_one;
use tidegate_plane::endpoints::rest::path::{self, Route, Target};
use tidegate_plane::endpoints::rest::routes::RestRoutes;
use tidegate_plane::endpoints::rest::service::{
    BodyUse, RestAnswer, RestCall, RestResponse, RestService, failure, text,
};
use tidegate_plane::pages::About;
use tidegate_plane::security::access::Grant;
use tidegate_plane::security::gate::check_model;

use crate::grpc::service::{all_models, on_no_node};
use crate::lane::{Asked, Lane};
use crate::links::tls::Protocol;
use crate::page::render;
use crate::rest::outgoing::Outgoing;

const PROMETHEUS: &str = "text/plain; version=0.0.4";

/// Answers requests of one I/O thread.
pub struct RestForwarder {
    /// What they are forwarded with.
    pub lane: Arc<Lane>,
    /// What answers those that no node is asked for.
    pub local: RestRoutes<AnyReply>,
}

impl RestService for RestForwarder {
    fn call(&self, mut call: RestCall, memory: &mut Option<Reservation>) -> RestAnswer {
        let (method, path) = (call.head.method.as_str(), call.head.uri.path());
        let Ok(mut route) = path::parse(method, path) else { return self.local.call(call, memory) };
        let own = self.lane.shared.state.metrics_path.as_deref();
        if route == Route::Metrics || own == Some(path) && matches!(method, "GET" | "HEAD") {
            return self.metrics(&call);
        }
        if let Some(what) = about_all(&route) {
            return RestAnswer::Ready(failure(&all_models(what), Tags::default()));
        }
        if is_about_models(&route)
            && let Err(status) = self.lane.shared.routes.load().check()
        {
            return RestAnswer::Ready(failure(&status, Tags::default()));
        }
        if route == Route::Inference(None) {
            route = match self.name_only_model(&mut call) {
                Ok(named) => named,
                Err(status) => return RestAnswer::Ready(failure(&status, Tags::default())),
            };
        }
        match self.asked(&call, &route) {
            // How a model stands that is on no node is known here.
            Some(asked) if asked.model.is_cold() && matches!(route, Route::Status(_)) => self.local.call(call, memory),
            Some(asked) if asked.model.is_cold() && only_asks(&route) => {
                RestAnswer::Ready(failure(&on_no_node(&asked.model.name), Tags::default()))
            }
            Some(asked) => RestAnswer::Coming(Box::pin(forward(self.lane.clone(), call, asked))),
            None => self.local.call(call, memory),
        }
    }

    fn count_unread(&self, code: Code) {
        self.local.count_unread(code);
    }

    fn admit(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        names: &[String],
    ) -> Result<Option<Arc<Grant>>, Status> {
        self.local.admit(method, path, headers, names)
    }

    fn use_of_body(&self, method: &Method, path: &str, headers: &HeaderMap) -> BodyUse {
        self.local.use_of_body(method, path, headers)
    }

    fn keeps(&self, _: &str) -> bool {
        true
    }

    fn any_origin(&self) -> bool {
        self.local.any_origin()
    }
}

impl RestForwarder {
    /// Has a request that names no model name the only one that its client may ask: a node may have others.
    fn name_only_model(&self, call: &mut RestCall) -> Result<Route, Status> {
        let routes = self.lane.shared.routes.load();
        let names = routes.models().map(|model| model.name.as_str());
        let name = only_one(names.filter(|name| check_model(&call.head, name).is_ok()))?;
        let path = format!("/inference/{}", percent_encode(name));
        let query = call.head.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let uri = Uri::try_from(path + &query).map_err(|why| Status::internal(format!("model '{name}': {why}")))?;
        call.head.uri = uri;
        Ok(Route::Inference(Some(Target { name: name.to_owned(), version: None, label: None })))
    }

    /// What is forwarded; none where the request has to be answered here.
    fn asked(&self, call: &RestCall, route: &Route) -> Option<Asked> {
        let name = &route.target()?.name;
        check_model(&call.head, name).ok()?;
        let model = self.lane.shared.routes.load().find(name).cloned()?;
        Some(Asked {
            model,
            bytes: call.body.len(),
            deadline: Some(call.deadline),
            protocol: Protocol::Rest,
            hedges: true,
        })
    }

    /// Written aside: there may be thousands of models in it.
    fn metrics(&self, call: &RestCall) -> RestAnswer {
        let (shared, deadline) = (self.lane.shared.clone(), call.deadline);
        RestAnswer::Coming(Box::pin(async move {
            let page = shared.clone();
            let write = move |_: Option<&Grant>| Ok(render(&page).into());
            let state = &shared.state;
            match state.pages.get(&state.aside, (About::Metrics, Endpoint::Rest), None, deadline, write).await {
                Ok(page) => text(StatusCode::OK, page, PROMETHEUS),
                Err(status) => failure(&status, Tags::default()),
            }
        }))
    }
}

/// What a route asks of all models, where it does: each node has its own.
fn about_all(route: &Route) -> Option<&'static str> {
    match route {
        Route::Statistics(None) => Some("statistics of all models"),
        Route::OpenApi => Some("how all models are called"),
        _ => None,
    }
}

/// A name as a part of a path.
fn percent_encode(name: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(encode).collect()
}

/// Whether a route asks what only the fleet's routes tell: of one model, or which there are.
fn is_about_models(route: &Route) -> bool {
    route.target().is_some() || matches!(route, Route::Inference(None) | Route::ReadyModels | Route::RepositoryIndex)
}

/// Whether a route only asks about a model what its node knows, and does not need it to be loaded.
fn only_asks(route: &Route) -> bool {
    matches!(route, Route::ModelReady(_) | Route::Statistics(_))
}

/// Forwards one request; dropped where its client goes away, which tells the node.
async fn forward(lane: Arc<Lane>, call: RestCall, asked: Asked) -> RestResponse {
    let counts = asked.model.counts.clone();
    counts.begin();
    let RestCall { head, body, observation, .. } = call;
    observation.note(|facts| facts.model = Some(asked.model.name.as_str().into()));
    let outgoing = Outgoing::new(head, body);
    match lane.answer(&asked, |node| outgoing.send(lane.index, node)).await {
        Ok(answer) => {
            observation.note(|facts| facts.reached = true);
            let response = answer.pass(asked.deadline);
            let failed = response.status().is_client_error() || response.status().is_server_error();
            counts.end(if failed { Code::Unknown } else { Code::Ok });
            response
        }
        Err(status) => {
            counts.end(status.code);
            failure(&status, Tags::default())
        }
    }
}
