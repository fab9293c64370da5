//! Answers to Classify, Regress and MultiInference as messages.

use crate::inference::{Inference, float_at, string_at};
use crate::protobuf::wire;

impl Inference<'_> {
    /// Appends it as field 1 of a `ClassificationResponse` or a `RegressionResponse`.
    pub fn write_result(&self, out: &mut Vec<u8>) {
        wire::put_bytes(out, 1, &self.message());
    }

    /// Appends it as the result of an `InferenceResult`.
    pub fn write_task_result(&self, out: &mut Vec<u8>) {
        let number = if let Inference::Classes { .. } = self { 2 } else { 3 };
        wire::put_bytes(out, number, &self.message());
    }

    /// `ClassificationResult` or `RegressionResult`.
    fn message(&self) -> Vec<u8> {
        let mut message = Vec::new();
        let (mut row_message, mut class) = (Vec::new(), Vec::new());
        for row in 0..self.rows() {
            row_message.clear();
            match self {
                Inference::Regression(slice) => put_float(&mut row_message, 1, float_at(slice, row)),
                Inference::Classes { classes, scores, count } => {
                    for at in row * count..(row + 1) * count {
                        class.clear();
                        if let Some(label) = classes.as_ref().map(|slice| string_at(slice, at)) {
                            put_nonempty(&mut class, 1, label);
                        }
                        put_float(&mut class, 2, scores.as_ref().map_or(0.0, |slice| float_at(slice, at)));
                        wire::put_bytes(&mut row_message, 1, &class);
                    }
                }
            }
            wire::put_bytes(&mut message, 1, &row_message);
        }
        message
    }
}

/// A string field is not sent when it is empty.
fn put_nonempty(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    if !value.is_empty() {
        wire::put_bytes(out, number, value);
    }
}

/// A float field is not sent when it is positive zero.
fn put_float(out: &mut Vec<u8>, number: u32, value: f32) {
    if value.to_bits() != 0 {
        wire::put_key(out, number, wire::FIXED32);
        out.extend_from_slice(&value.to_le_bytes());
    }
}
