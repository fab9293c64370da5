//! The routes of the REST endpoint: predict, model status, metadata, metrics and health.
//! The REST endpoint hands in whole requests; predict goes to the desk, the rest is known here.

use std::sync::Arc;

use http::StatusCode;
use tokio::sync::oneshot;

use crate::ask::{Ask, Payload};
use crate::cors;
use crate::desk::Desk;
use crate::grpc_reply::{ID_HEADER, Tags};
use crate::head::Method;
use crate::inflight::Reply;
use crate::json_examples;
use crate::json_request::{Form, JsonRequest};
use crate::metadata;
use crate::metrics::Endpoint;
use crate::model_status;
use crate::request_id::RequestId;
use crate::rest::{self, RestAnswer, RestCall, RestResponse, RestService};
use crate::rest_path::{self, Route, Target};
use crate::status::{Code, Status};

const PATHS: &str = "POST /v1/models/NAME[/versions/V|/labels/L]:predict (or :classify, :regress), \
                     GET /v1/models/NAME[/versions/V|/labels/L], GET /v1/models/NAME/metadata, GET /metrics, \
                     GET /v2/health/live, GET /v2/health/ready, GET /v2/models/NAME[/versions/V]/ready";

/// The REST side of one desk.
pub struct RestRoutes(pub Arc<Desk>);

impl RestService for RestRoutes {
    fn any_origin(&self) -> bool {
        self.0.shared.rest_cors
    }

    fn call(&self, call: RestCall) -> RestAnswer {
        let id = RequestId::choose(call.head.headers.get(ID_HEADER), &self.0.shared.ids);
        match self.route(&call) {
            Ok(Route::Predict(target)) => self.predict(&call, &target, id),
            Ok(Route::Examples(method, target)) => self.examples(&call, method, &target, id),
            Ok(Route::Status(target)) => RestAnswer::Ready(self.status(&call, &target, &id)),
            Ok(Route::Metadata(target)) => RestAnswer::Ready(self.metadata(&call, &target, &id)),
            Ok(Route::Metrics) => {
                let text = self.0.shared.render_metrics();
                RestAnswer::Ready(rest::text(StatusCode::OK, text, "text/plain; version=0.0.4; charset=utf-8"))
            }
            Ok(Route::Live) => RestAnswer::Ready(rest::text(StatusCode::OK, "live\n".to_owned(), "text/plain")),
            Ok(Route::Ready) => RestAnswer::Ready(self.ready()),
            Ok(Route::Preflight) => {
                RestAnswer::Ready(rest::with_body(StatusCode::OK, Vec::new(), Tags { version: None, id: Some(&id) }))
            }
            Ok(Route::ModelReady(target)) => RestAnswer::Ready(self.model_ready(&target)),
            Ok(Route::Unknown) => {
                let (method, path) = (&call.head.method, call.head.uri.path());
                let text = format!("no such path: {method} {path}; there are {PATHS}");
                RestAnswer::Ready(self.fail(&call, &Status::not_found(text), &id))
            }
            Err(status) => RestAnswer::Ready(self.fail(&call, &status, &id)),
        }
    }
}

impl RestRoutes {
    fn route(&self, call: &RestCall) -> Result<Route, Status> {
        let (method, path) = (call.head.method.as_str(), call.head.uri.path());
        match self.0.shared.metrics_path.as_deref() {
            Some(metrics) if metrics == path && matches!(method, "GET" | "HEAD") => Ok(Route::Metrics),
            _ if self.0.shared.rest_cors && method == "OPTIONS" => {
                cors::check_preflight(&call.head.headers).map(|()| Route::Preflight)
            }
            _ => rest_path::parse(method, path),
        }
    }

    fn count(&self, code: Code, call: &RestCall) {
        self.0.shared.metrics.unrouted.count(Endpoint::Rest, code);
        self.0.shared.metrics.count_latency(Endpoint::Rest, call.received.elapsed());
    }

    fn fail(&self, call: &RestCall, status: &Status, id: &RequestId) -> RestResponse {
        self.count(status.code, call);
        rest::failure(status, Tags { version: None, id: Some(id) })
    }

    fn predict(&self, call: &RestCall, target: &Target, id: RequestId) -> RestAnswer {
        match JsonRequest::parse(&call.body) {
            Ok(request) => {
                let (sender, later) = oneshot::channel();
                let reply = Reply::Rest(sender, request.form);
                let ask = Ask { reply, id, received: call.received, deadline: call.deadline };
                let spec = target.spec(&request.signature_name);
                self.0.predict(ask, &spec, &call.head.headers, &Payload::Json(&request));
                RestAnswer::Later(later)
            }
            Err(status) => RestAnswer::Ready(self.fail(call, &status, &id)),
        }
    }

    fn examples(&self, call: &RestCall, method: Method, target: &Target, id: RequestId) -> RestAnswer {
        match json_examples::parse(&call.body) {
            Ok((signature_name, input)) => {
                let (sender, later) = oneshot::channel();
                let reply = Reply::Rest(sender, Form::Row);
                let ask = Ask { reply, id, received: call.received, deadline: call.deadline };
                self.0.predict(
                    ask,
                    &target.spec(&signature_name),
                    &call.head.headers,
                    &Payload::Examples(method, &input),
                );
                RestAnswer::Later(later)
            }
            Err(status) => RestAnswer::Ready(self.fail(call, &status, &id)),
        }
    }

    fn status(&self, call: &RestCall, target: &Target, id: &RequestId) -> RestResponse {
        match self.0.model_states(&target.spec("")) {
            Ok(states) => {
                self.count(Code::Ok, call);
                let tags = Tags { version: None, id: Some(id) };
                rest::with_body(StatusCode::OK, model_status::to_json(&states), tags)
            }
            Err(status) => self.fail(call, &status, id),
        }
    }

    fn metadata(&self, call: &RestCall, target: &Target, id: &RequestId) -> RestResponse {
        match self.0.model_version(&target.spec("")) {
            Ok(version) => {
                self.count(Code::Ok, call);
                let tags = Tags { version: Some(&version.header), id: Some(id) };
                rest::with_body(StatusCode::OK, metadata::to_json(&version), tags)
            }
            Err(status) => self.fail(call, &status, id),
        }
    }

    /// Whether a predict request for this model would find a version.
    fn model_ready(&self, target: &Target) -> RestResponse {
        match self.0.model_version(&target.spec("")) {
            Ok(version) => rest::text(StatusCode::OK, format!("ready: version {}\n", version.number), "text/plain"),
            Err(status) => {
                let code = StatusCode::from_u16(status.code.http()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
                rest::text(code, format!("not ready: {}\n", status.message), "text/plain")
            }
        }
    }

    fn ready(&self) -> RestResponse {
        let readiness = self.0.shared.readiness();
        let (code, word) =
            if readiness.ready { (StatusCode::OK, "ready") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready") };
        rest::text(code, format!("{word}: {}\n", readiness.reason), "text/plain")
    }
}
