//! The Open Inference Protocol: infer requests as messages, as JSON and as JSON with binary tensors behind it, and what
//! asks for metadata and lists.

use tidegate_codec::dtype::DType;
use tidegate_codec::open_inference::request::InferRequest;
use tidegate_codec::open_inference::{generate, index, json_answer, json_request, message, metadata};
use tidegate_codec::signatures::Signature;
use tidegate_codec::tensors::{Column, Slice, Words};

use crate::pages::{LIMIT, outer, sheets};

/// Rows of an answer.
const ROWS: usize = 2;

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
        outer(input, || answer(input, request, &sheet.signature));
        sheet.fill(input, |signature, page| request.read_inputs(signature, page, LIMIT));
    }
}

/// Answers with two rows of the input's own bytes, in both forms.
fn answer(input: &[u8], request: &InferRequest<'_>, signature: &Signature) {
    let Ok(answer) = request.answer(signature) else { return };
    let dtype = signature.outputs[0].dtype;
    if dtype == DType::String {
        return;
    }
    let mut words = Words::default();
    let width = input.len() / ROWS / dtype.size();
    words.push(&input[..ROWS * width * dtype.size()]);
    let (column, inner) = (Column::Raw(words), [width]);
    let output = |_| ("y", Slice { dtype, column: &column, inner: &inner, first: 0, rows: ROWS, unbatched: false });
    assert!(message::encode("m", 1, &answer, output).is_ok_and(|frame| !frame.is_empty()));
    assert!(!generate::encode("m", 1, &[output(0)]).is_empty());
    let body = json_answer::encode("m", 1, &answer, output);
    assert!(body.is_ok_and(|body| body.json_length.is_none_or(|length| length <= body.bytes.len())));
}
