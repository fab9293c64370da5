//! The name that a router splices out of a message: no memory but for an error's words, and the same name that the message's own
//! decoder reads.

use tidegate_codec::open_inference::metadata;
use tidegate_codec::protobuf::model_status;
use tidegate_codec::protobuf::multi_inference::MultiInferenceRequest;
use tidegate_codec::protobuf::predict::PredictRequest;
use tidegate_router::grpc::names::{named_by, splice};

use crate::bounds::{self, Memory};

/// Nothing is kept but what is wrong.
const MEMORY: Memory = Memory { fixed: 4096, per_byte: 0 };
const PREDICT: &str = "/tensorflow.serving.PredictionService/Predict";
const MULTI_INFERENCE: &str = "/tensorflow.serving.PredictionService/MultiInference";
const MODEL_METADATA: &str = "/inference.GRPCInferenceService/ModelMetadata";

/// Takes any bytes.
pub fn run(input: &[u8]) {
    let mut found = Vec::with_capacity(3);
    bounds::within(MEMORY, input, || {
        for method in [PREDICT, MULTI_INFERENCE, MODEL_METADATA] {
            let named = named_by(method).unwrap_or_else(|| unreachable!("it names a model"));
            found.push(splice(input, named.path).ok());
        }
        0
    });
    if let Ok(request) = PredictRequest::parse(input) {
        agree(found[0], request.spec.name);
    }
    if let Ok(spec) = model_status::parse_request(input) {
        agree(found[0], spec.name);
    }
    if let Ok(request) = MultiInferenceRequest::parse(input) {
        agree(found[1], request.spec().name);
    }
    if let Ok(spec) = metadata::parse_request(input) {
        agree(found[2], spec.name);
    }
}

/// What a decoder reads is what was spliced; where it reads none, the node that is asked by an earlier one says so.
fn agree(spliced: Option<Option<&str>>, name: &str) {
    let spliced = spliced.unwrap_or_else(|| panic!("the message was read, and its name was not"));
    assert!(name.is_empty() || spliced == Some(name), "{spliced:?} was spliced, and {name:?} read");
}
