//! The Open Inference Protocol: infer requests as messages, as JSON and as JSON with binary tensors behind it, and what
//! asks for metadata and lists.

use tidegate_codec::open_inference::request::InferRequest;
use tidegate_codec::open_inference::{index, json_request, message, metadata};

use crate::pages::{LIMIT, outer, sheets};

/// Hands the bytes to each decoder, whatever they are meant as. JSON ends before the first zero byte, which it cannot
/// have, and binary tensors follow.
pub fn run(input: &[u8]) {
    let asked = || (metadata::parse_request(input).is_ok(), index::parse_message(input), index::parse_json(input));
    let _ = outer(input, || matches!(asked(), (true, Ok(_), Ok(_))));
    let json_length = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let message = outer(input, || message::parse(input).ok());
    let body = outer(input, || json_request::parse(input, json_length).ok());
    for request in message.iter().map(|infer| &infer.request).chain(&body) {
        read(input, request);
    }
}

fn read(input: &[u8], request: &InferRequest<'_>) {
    for sheet in sheets() {
        let _ = outer(input, || request.answer(&sheet.signature).is_ok());
        sheet.fill(input, |signature, page| request.read_inputs(signature, page, LIMIT));
    }
}
