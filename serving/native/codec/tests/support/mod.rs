//! Signatures, random bytes and messages that the tests of the decoders are made of.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "a test fails by panicking")]

pub mod messages;
pub mod random;

use tidegate_codec::dtype::DType;
use tidegate_codec::signatures::{Signature, TensorSpec};
use tidegate_codec::tensors::Column;

pub fn floats(column: &Column) -> Vec<f32> {
    match column {
        Column::Raw(words) => {
            words.as_bytes().chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
        }
        Column::Strings(_) => panic!("not floats"),
    }
}

pub fn spec(name: &str, dtype: DType, shape: &[i64]) -> TensorSpec {
    TensorSpec::new(name, dtype, shape)
}

pub fn signature(inputs: Vec<TensorSpec>, outputs: Vec<TensorSpec>) -> Signature {
    Signature::new("serving_default".to_owned(), "tensorflow/serving/predict".to_owned(), inputs, outputs).unwrap()
}
