//! Cross-origin requests from browsers, answered as TensorFlow Serving does where its operator allows them.

use http::header::{ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ORIGIN};
use http::{HeaderMap, HeaderValue};
use tidegate_codec::status::{Code, Status};

/// Lets pages of any origin read an answer with these headers.
pub fn allow(headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST, GET"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Content-Type"));
}

/// Whether an `OPTIONS` request is a browser's question.
pub fn check_preflight(headers: &HeaderMap) -> Result<(), Status> {
    let origin = headers.get(ORIGIN).map(HeaderValue::as_bytes).unwrap_or_default();
    if [&b"http://"[..], b"https://"].iter().any(|scheme| origin.starts_with(scheme)) {
        return Ok(());
    }
    Err(Status::new(Code::FailedPrecondition, "Origin header is missing in CORS preflight"))
}
