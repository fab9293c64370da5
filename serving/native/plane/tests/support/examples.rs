//! Makes `tensorflow.Example` messages and the requests that carry them, field by field.
//! Tests of Classify, Regress and MultiInference send them.

use tidegate_codec::protobuf::wire;

use super::messages::{bytes_of, fields};
use tidegate_codec::protobuf::wire::Value;

pub const CLASSIFY: &str = "/tensorflow.serving.PredictionService/Classify";
pub const REGRESS: &str = "/tensorflow.serving.PredictionService/Regress";
pub const MULTI_INFERENCE: &str = "/tensorflow.serving.PredictionService/MultiInference";
pub const SESSION_RUN: &str = "/tensorflow.serving.SessionService/SessionRun";

fn message(number: u32, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    wire::put_bytes(&mut out, number, content);
    out
}

/// A feature of floats, packed.
pub fn floats(values: &[f32]) -> Vec<u8> {
    let packed: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    message(2, &message(1, &packed))
}

/// A feature of whole numbers, packed.
pub fn wholes(values: &[i64]) -> Vec<u8> {
    let mut packed = Vec::new();
    values.iter().for_each(|value| wire::put_varint(&mut packed, *value as u64));
    message(3, &message(1, &packed))
}

/// A feature of byte strings.
pub fn strings(values: &[&[u8]]) -> Vec<u8> {
    message(1, &values.iter().flat_map(|value| message(1, value)).collect::<Vec<_>>())
}

/// An example with these features.
pub fn example(features: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let entry =
        |(name, feature): &(&str, Vec<u8>)| message(1, &[message(1, name.as_bytes()), message(2, feature)].concat());
    message(1, &features.iter().flat_map(entry).collect::<Vec<_>>())
}

/// An `Input` with an `ExampleList`.
pub fn list(examples: &[Vec<u8>]) -> Vec<u8> {
    message(1, &examples.iter().flat_map(|example| message(1, example)).collect::<Vec<_>>())
}

/// An `Input` with an `ExampleListWithContext`.
pub fn list_with_context(context: &[u8], examples: &[Vec<u8>]) -> Vec<u8> {
    let examples = examples.iter().flat_map(|example| message(1, example));
    message(2, &examples.chain(message(2, context)).collect::<Vec<_>>())
}

pub fn spec(model: &str, signature: &str) -> Vec<u8> {
    let mut out = message(1, model.as_bytes());
    if !signature.is_empty() {
        wire::put_bytes(&mut out, 3, signature.as_bytes());
    }
    out
}

/// A `ClassificationRequest` or `RegressionRequest`.
pub fn request(model: &str, signature: &str, input: &[u8]) -> Vec<u8> {
    [message(1, &spec(model, signature)), message(2, input)].concat()
}

/// A `MultiInferenceRequest` of model, signature and method name.
pub fn multi(tasks: &[(&str, &str, &str)], input: &[u8]) -> Vec<u8> {
    let task = |(model, signature, method): &(&str, &str, &str)| {
        message(1, &[message(1, &spec(model, signature)), message(2, method.as_bytes())].concat())
    };
    tasks.iter().flat_map(task).chain(message(2, input)).collect()
}

/// A `SessionRunRequest`.
pub fn session(model: &str, feeds: &[(&str, Vec<u8>)], fetches: &[&str]) -> Vec<u8> {
    let feed =
        |(name, tensor): &(&str, Vec<u8>)| message(2, &[message(1, name.as_bytes()), message(2, tensor)].concat());
    let fetches = fetches.iter().flat_map(|name| message(3, name.as_bytes()));
    [message(1, &spec(model, ""))].concat().into_iter().chain(feeds.iter().flat_map(feed)).chain(fetches).collect()
}

fn float_of(message: &[u8], number: u32) -> f32 {
    let found = fields(message).into_iter().rfind(|field| field.number == number);
    found.map_or(0.0, |field| match field.value {
        Value::Fixed32(four) => f32::from_le_bytes(four.try_into().unwrap()),
        other => panic!("{other:?}"),
    })
}

/// Label and score of each class of each example in a `ClassificationResult`.
pub fn classes(result: &[u8]) -> Vec<Vec<(String, f32)>> {
    let class = |class: &[u8]| {
        let label = bytes_of(class, 1).concat();
        (String::from_utf8(label).unwrap(), float_of(class, 2))
    };
    bytes_of(result, 1).iter().map(|row| bytes_of(row, 1).into_iter().map(class).collect()).collect()
}

/// The values of a `RegressionResult`.
pub fn values(result: &[u8]) -> Vec<f32> {
    bytes_of(result, 1).iter().map(|row| float_of(row, 1)).collect()
}
