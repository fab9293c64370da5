//! Answers to classify and regress requests as JSON.

use crate::inference::{Inference, float_at, string_at};
use crate::json::text::{write_float, write_list, write_string};

impl Inference<'_> {
    /// `{"results": ...}`: a number per example, or a list of `[label, score]` pairs.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = b"{\"results\":".to_vec();
        write_list(&mut out, self.rows(), |out, row| match self {
            Inference::Regression(slice) => write_float(out, float_at(slice, row)),
            Inference::Classes { classes, scores, count } => write_list(out, *count, |out, at| {
                let at = row * count + at;
                out.push(b'[');
                write_string(out, "", classes.as_ref().map_or(b"", |slice| string_at(slice, at)));
                out.push(b',');
                write_float(out, scores.as_ref().map_or(0.0, |slice| float_at(slice, at)));
                out.push(b']');
            }),
        });
        out.push(b'}');
        out
    }
}
