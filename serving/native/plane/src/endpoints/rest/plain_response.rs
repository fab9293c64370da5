//! The answer to a plain object, and an error of one.

use http::StatusCode;
use http::header::CONTENT_TYPE;
use tidegate_codec::json::predict_response;
use tidegate_codec::json::text::detailed_error_body;
use tidegate_codec::msgpack::{self, Binary};
use tidegate_codec::signatures::Signature;
use tidegate_codec::status::Status;
use tidegate_engine::request::{Rows, Tags};

use crate::endpoints::body::held;
use crate::endpoints::rest::media_type::MediaType;
use crate::endpoints::rest::service::{self, RestResponse, with_body, with_bytes};

/// How bytes are written that MessagePack has a type for.
pub(crate) fn binary(signature: &Signature) -> Binary {
    if signature.schema.is_some() { Binary::Text } else { Binary::Object }
}

/// The answer.
pub(crate) fn respond(rows: &Rows<'_>, media_type: MediaType, tags: Tags<'_>) -> Result<RestResponse, Status> {
    let signature = &rows.served.signature;
    let text = match &signature.schema {
        Some(_) => rows.slice(0).strings().next().unwrap_or_default().to_vec(),
        None => predict_response::encode_plain(&rows.all_named().collect::<Vec<_>>())?,
    };
    let body = match media_type {
        MediaType::Json => text,
        MediaType::MessagePack(_) => msgpack::from_json(&text, binary(signature)).map_err(|why| {
            let model = &rows.served.model;
            Status::internal(format!("model '{model}' gave a document that is no JSON: {}", why.message))
        })?,
    };
    let mut response = with_bytes(StatusCode::OK, held(body.into(), &rows.served.memory), tags);
    response.headers_mut().insert(CONTENT_TYPE, media_type.header());
    Ok(response)
}

/// An error; of a request that does not fit its schema with all that is wrong.
pub(crate) fn failure(status: &Status, tags: Tags<'_>) -> RestResponse {
    match &status.details {
        Some(errors) => {
            let body = detailed_error_body(&status.message, Some(errors));
            with_body(StatusCode::UNPROCESSABLE_ENTITY, body, tags)
        }
        None => service::failure(status, tags),
    }
}
