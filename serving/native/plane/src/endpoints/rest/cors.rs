//! Cross-origin requests from browsers, answered as TensorFlow Serving does where its operator allows them.

use http::header::{ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN};
use http::{HeaderMap, HeaderValue};
use tidegate_codec::status::{Code, Status};

/// Lets pages of any origin read an answer with these headers.
pub fn allow(headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST, GET"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Content-Type"));
}

/// Whether an `OPTIONS` request of this origin is a browser's question. One without an origin is none, and asks for methods.
pub fn check_preflight(origin: &HeaderValue) -> Result<(), Status> {
    if [&b"http://"[..], b"https://"].iter().any(|scheme| origin.as_bytes().starts_with(scheme)) {
        return Ok(());
    }
    let origin = String::from_utf8_lossy(origin.as_bytes());
    let cure = "open the page over HTTP, since a page from a file has no origin";
    let what = format!("CORS preflight from origin {origin:?}, which begins with neither http:// nor https://: {cure}");
    Err(Status::new(Code::FailedPrecondition, what))
}
