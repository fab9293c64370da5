//! Large messages of many small parts: what a decoder makes of them, before anybody counts it, stays near their own size.

use tidegate_codec::json;
use tidegate_codec::open_inference;
use tidegate_codec::protobuf::examples;
use tidegate_codec::protobuf::multi_inference::MultiInferenceRequest;
use tidegate_codec::protobuf::predict::PredictRequest;
use tidegate_codec::protobuf::session_run::SessionRunRequest;
use tidegate_codec::protobuf::wire::put_bytes;
use tidegate_fuzz::bounds::{Memory, within};

const LARGE: usize = 2 << 20;
const NEAR: Memory = Memory { fixed: 3 << 20, per_byte: 3 };

/// What a decoder takes while it has an input, and what it answers.
fn near<T>(input: &[u8], parse: impl FnOnce(&[u8]) -> T) {
    within(NEAR, input, || {
        drop(parse(input));
        0
    });
}

fn inside(field: u32, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, field, message);
    out
}

/// One after the other: memory is counted over all threads.
#[test]
fn many_small_parts_stay_small() {
    a_message_that_repeats_an_empty_field();
    examples_without_features();
}

fn a_message_that_repeats_an_empty_field() {
    for field in 1..5 {
        let message = [field << 3 | 2, 0].repeat(LARGE / 2);
        near(&message, |bytes| PredictRequest::parse(bytes).is_ok());
        near(&message, |bytes| SessionRunRequest::parse(bytes).is_ok());
        near(&message, |bytes| MultiInferenceRequest::parse(bytes).is_ok());
    }
    for field in 1..8 {
        let message = [field << 3 | 2, 0].repeat(LARGE / 2);
        near(&message, |bytes| open_inference::message::parse(bytes).is_ok());
    }
    let body = format!("{{\"inputs\":[{}{{}}]}}", "{},".repeat(LARGE / 3));
    near(body.as_bytes(), |bytes| open_inference::json_request::parse(bytes, bytes.len()).is_ok());
}

fn examples_without_features() {
    let list = [0x0a, 0].repeat(LARGE / 2);
    let spec = inside(1, &inside(1, b"m"));
    for kind in [1, 2] {
        let request = [spec.clone(), inside(2, &inside(kind, &list))].concat();
        near(&request, |bytes| {
            let count =
                examples::parse_request(bytes).map(|(_, input)| (input.examples.len(), input.examples.iter().count()));
            assert_eq!(count, Ok((LARGE / 2, LARGE / 2)));
        });
    }
    let body = format!("{{\"examples\":[{}{{}}]}}", "{},".repeat(LARGE / 3));
    near(body.as_bytes(), |bytes| {
        let count = json::examples::parse(bytes).map(|(_, input)| input.examples.iter().count());
        assert_eq!(count, Ok(LARGE / 3 + 1));
    });
}
