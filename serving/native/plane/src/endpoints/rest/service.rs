//! A request with its whole body, who answers it, and the answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, request};
use http_body_util::Full;
use tidegate_codec::json::text::error_body;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::memory::Reservation;
use tidegate_engine::request::Tags;
use tidegate_engine::telemetry::Observation;
use tokio::sync::oneshot;

use crate::connections::lifeline::Lifeline;
use crate::endpoints::headers::write_tags;
use crate::endpoints::rest::answer_body::RestBody;
use crate::endpoints::rest::events::EventAnswer;
use crate::security::access::Grant;

/// An answer.
pub type RestResponse = Response<RestBody>;

/// A request with its whole body.
pub struct RestCall {
    /// Method, path and headers.
    pub head: request::Parts,
    /// The body.
    pub body: Bytes,
    /// When its last byte had come.
    pub received: Instant,
    /// When its answer is worth nothing any more.
    pub deadline: Instant,
    /// The connection that it came on.
    pub lifeline: Arc<Lifeline>,
    /// What is noted of it.
    pub observation: Observation,
}

/// What a request's body is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BodyUse {
    /// It is looked at.
    Read,
    /// What is asked for has no use for one.
    Useless,
    /// Nothing is asked for that there is.
    LeadsNowhere,
}

/// An answer, now or later.
pub enum RestAnswer {
    /// Now.
    Ready(RestResponse),
    /// Later; a sender that is dropped means that the server is stopping.
    Later(oneshot::Receiver<RestResponse>),
    /// Message by message.
    Events(Box<EventAnswer>),
    /// Later, from whatever is awaited on the I/O thread; dropped where the client goes away.
    Coming(Pin<Box<dyn Future<Output = RestResponse> + Send>>),
}

/// Answers requests, on I/O threads and beside them; must return at once.
pub trait RestService: Send + Sync + 'static {
    /// Takes over a request, and what its body takes, where that is counted and to stay so after this returns.
    fn call(&self, call: RestCall, memory: &mut Option<Reservation>) -> RestAnswer;

    /// Counts a request that is not handed over, with the code of what its client sees.
    fn count_unread(&self, _code: Code) {}

    /// What whoever sent this head, with a certificate of these names, may do; none where everybody may do everything. The
    /// error says why the request is not let in.
    fn admit(
        &self,
        _method: &Method,
        _path: &str,
        _headers: &HeaderMap,
        _names: &[String],
    ) -> Result<Option<Arc<Grant>>, Status> {
        Ok(None)
    }

    /// What the body of this request is for; asked of those that may be large, and of packed ones.
    fn use_of_body(&self, _method: &Method, _path: &str, _headers: &HeaderMap) -> BodyUse {
        BodyUse::Read
    }

    /// Whether a body at this path may stand for more bytes than it has, so that it is read aside.
    fn reads_more(&self, _path: &str) -> bool {
        false
    }

    /// Whether bodies at this path are kept until they are answered, and count for so long.
    fn keeps(&self, _path: &str) -> bool {
        false
    }

    /// Whether pages of any origin may read the answers.
    fn any_origin(&self) -> bool {
        false
    }
}

/// An answer after which the connection ends.
pub fn close_after(mut response: RestResponse) -> RestResponse {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A JSON answer.
pub fn with_body(status: StatusCode, body: Vec<u8>, tags: Tags<'_>) -> RestResponse {
    with_bytes(status, body.into(), tags)
}

/// The same of shared bytes.
pub fn with_bytes(status: StatusCode, body: Bytes, tags: Tags<'_>) -> RestResponse {
    let mut response = Response::new(RestBody::Whole(Full::new(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    write_tags(tags, response.headers_mut());
    response
}

/// A text answer.
pub fn text(status: StatusCode, body: impl Into<Bytes>, kind: &'static str) -> RestResponse {
    let mut response = Response::new(RestBody::Whole(Full::new(body.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    debug_assert!(!response.headers().contains_key(CONTENT_LENGTH));
    response
}

/// An error answer with TensorFlow Serving's status mapping.
pub fn failure(status: &Status, tags: Tags<'_>) -> RestResponse {
    let code = StatusCode::from_u16(status.code.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = with_body(code, error_body(&status.message), tags);
    if code == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
