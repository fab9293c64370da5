//! Every message that comes as protocol buffers: Predict, SessionRun, MultiInference, the examples of Classify and
//! Regress, tensors, and what asks for metadata and states.

use tidegate_codec::protobuf::examples::{self, ExampleInput};
use tidegate_codec::protobuf::multi_inference::MultiInferenceRequest;
use tidegate_codec::protobuf::predict::{PredictRequest, select_outputs};
use tidegate_codec::protobuf::session_run::SessionRunRequest;
use tidegate_codec::protobuf::{metadata, model_status};
use tidegate_codec::signatures::{FirstAxis, Signature};

use crate::pages::{LIMIT, outer, sheets};

/// Hands the bytes to each decoder, whatever they are meant as.
pub fn run(input: &[u8]) {
    let _ = outer(input, || (metadata::parse_request(input).is_ok(), model_status::parse_request(input).is_ok()));
    let predict = outer(input, || PredictRequest::parse(input).ok());
    let session = outer(input, || SessionRunRequest::parse(input).ok());
    let tasks = outer(input, || MultiInferenceRequest::parse(input).ok());
    let examples = outer(input, || examples::parse_request(input).ok().map(|(_, examples)| examples));
    let mut tensor = PredictRequest::default();
    assert!(tensor.push_input(b"x", input).is_ok(), "it is the first");
    let mut example = ExampleInput::default();
    example.examples.push(input);
    for sheet in sheets() {
        let signature = &sheet.signature;
        for request in predict.iter().chain([&tensor]) {
            let _ = outer(input, || select_outputs(&request.output_filter, signature).is_ok());
            sheet.fill(input, |signature, page| request.read_inputs(signature, page, LIMIT));
        }
        if let Some(request) = &session {
            let _ = outer(input, || (request.maps_onto(signature), request.fetched(signature)));
            sheet.fill(input, |signature, page| request.inputs.read_inputs(signature, page, LIMIT));
        }
        let asked = tasks.as_ref().map(|tasks| {
            let _ = outer(input, || tasks.resolve(|_| Some(((), signature))).is_ok());
            &tasks.input
        });
        if takes_examples(signature) {
            for input_of in examples.iter().chain(asked).chain([&example]) {
                sheet.fill(input, |signature, page| input_of.read_inputs(signature, page));
            }
        }
    }
}

/// Whether the path of a request would have examples read for it.
pub fn takes_examples(signature: &Signature) -> bool {
    signature.first_axis != FirstAxis::Free
}
