//! The answer to an infer request: JSON, behind which binary tensors may follow.

use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, StatusCode};
use tidegate_codec::open_inference::answer::InferAnswer;
use tidegate_codec::open_inference::json_answer;
use tidegate_codec::status::Status;
use tidegate_engine::request::{Rows, Tags};

use crate::endpoints::body::held;
use crate::endpoints::rest::service::{RestResponse, with_bytes};

/// How many bytes of a body are JSON, where binary tensors follow.
pub const JSON_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");
const BINARY: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// The answer to an infer request.
pub(crate) fn respond(rows: &Rows<'_>, answer: &InferAnswer, tags: Tags<'_>) -> Result<RestResponse, Status> {
    let (model, version) = (rows.served.model_spec().name, rows.served.version);
    let body = json_answer::encode(model, version, answer, |index| rows.named(index))?;
    let mut response = with_bytes(StatusCode::OK, held(body.bytes.into(), &rows.served.memory), tags);
    if let Some(length) = body.json_length {
        response.headers_mut().insert(CONTENT_TYPE, BINARY);
        response.headers_mut().insert(JSON_LENGTH, HeaderValue::from(length));
    }
    Ok(response)
}
