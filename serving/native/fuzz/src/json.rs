//! Every body that comes as JSON: predict requests by rows and by columns, plain objects, and the examples of classify and
//! regress.

use tidegate_codec::json::examples;
use tidegate_codec::json::plain_object::PlainObject;
use tidegate_codec::json::predict_request::JsonRequest;

use crate::pages::{outer, sheets};
use crate::protobuf::takes_examples;

/// Hands the bytes to each decoder, whatever they are meant as.
pub fn run(input: &[u8]) {
    let predict = outer(input, || JsonRequest::parse(input).ok());
    let examples = outer(input, || examples::parse(input).ok());
    let plain = outer(input, || PlainObject::parse(input).ok());
    for sheet in sheets() {
        for plain in plain.iter().flat_map(|plain| [*plain, plain.lenient()]) {
            sheet.fill(input, |signature, page| plain.read_inputs(signature, page));
        }
        if let Some(request) = &predict {
            sheet.fill(input, |signature, page| request.read_inputs(signature, page));
        }
        if let Some((_, examples)) = examples.as_ref().filter(|_| takes_examples(&sheet.signature)) {
            sheet.fill(input, |signature, page| examples.read_inputs(signature, page));
        }
    }
}
