//! `ModelStreamInferResponse`, written as one gRPC frame: an answer or an error, as Triton's clients read them.

use bytes::Bytes;

use crate::protobuf::frame::{finish_frame, start_frame};
use crate::protobuf::wire;

/// The parameter by which a request asks for an answer without outputs behind the last message of a stream.
pub const ENABLE_EMPTY_FINAL: &str = "triton_enable_empty_final_response";

/// The parameter that says whether an answer is its request's last.
const FINAL: &str = "triton_final_response";

/// An answer, given as the frame of its `ModelInferResponse`.
pub fn message(infer_response: &[u8], last: bool) -> Bytes {
    answer(infer_response.get(5..).unwrap_or_default(), last)
}

/// An answer without outputs, for a request of this id.
pub fn empty_final(model: &str, version: &str, id: &str) -> Bytes {
    let mut infer_response = Vec::new();
    wire::put_bytes(&mut infer_response, 1, model.as_bytes());
    wire::put_bytes(&mut infer_response, 2, version.as_bytes());
    put_id(&mut infer_response, id);
    answer(&infer_response, true)
}

/// Why a request of this id has no answer, or no more of them.
pub fn error(why: &str, id: &str) -> Bytes {
    let mut infer_response = Vec::new();
    put_id(&mut infer_response, id);
    let mut out = start_frame(why.len() + infer_response.len() + 16);
    wire::put_bytes(&mut out, 1, why.as_bytes());
    wire::put_bytes(&mut out, 2, &infer_response);
    finish_frame(out)
}

fn put_id(out: &mut Vec<u8>, id: &str) {
    if !id.is_empty() {
        wire::put_bytes(out, 3, id.as_bytes());
    }
}

fn answer(infer_response: &[u8], last: bool) -> Bytes {
    let mut parameter = Vec::new();
    wire::put_bytes(&mut parameter, 1, FINAL.as_bytes());
    let mut value = Vec::new();
    wire::put_uint(&mut value, 1, u64::from(last));
    wire::put_bytes(&mut parameter, 2, &value);
    let length = infer_response.len() + wire::bytes_field_len(4, parameter.len());
    let mut out = start_frame(length + 16);
    wire::put_key(&mut out, 2, wire::BYTES);
    wire::put_varint(&mut out, length as u64);
    out.extend_from_slice(infer_response);
    wire::put_bytes(&mut out, 4, &parameter);
    finish_frame(out)
}
