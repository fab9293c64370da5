//! One request's rows of a batch's outputs, for a reply to encode.

use std::sync::Arc;

use tidegate_codec::inference::{Inference, InferenceOutputs};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, Slice, Tensor};

use crate::batching::ServedSignature;
use crate::batching::stream::Message;

/// One request's rows.
pub struct Rows<'a> {
    /// Whose outputs.
    pub served: &'a Arc<ServedSignature>,
    /// All declared outputs, in order.
    pub outputs: &'a [Tensor],
    /// The request's first row in them.
    pub first: usize,
    /// Its number of rows.
    pub rows: usize,
    /// How many rows it came with, where it was of rows.
    pub examples: usize,
    /// Whether outputs of one element per row go without their second axis.
    pub flat: bool,
    /// Whether the outputs are the request's as they are, without an axis for rows.
    pub unbatched: bool,
}

/// What a request without rows gets: outputs without rows. Dimensions that only the model knows are 0.
pub fn no_rows(served: &ServedSignature) -> Vec<Tensor> {
    let outputs = served.signature.outputs.iter();
    let inner = |dim: &i64| usize::try_from(*dim).unwrap_or(0);
    outputs
        .map(|spec| Tensor {
            column: Column::new(spec.dtype),
            shape: std::iter::once(0).chain(spec.inner().iter().map(inner)).collect(),
        })
        .collect()
}

impl Message {
    /// Its outputs, for a reply to encode.
    pub fn rows(&self) -> Rows<'_> {
        let Message { served, outputs, .. } = self;
        Rows { served, outputs, first: 0, rows: 1, examples: 1, flat: false, unbatched: true }
    }
}

impl<'a> Rows<'a> {
    /// An output with its name.
    #[inline]
    pub fn named(&self, index: usize) -> (&'a str, Slice<'a>) {
        (self.served.signature.outputs[index].name.as_str(), self.slice(index))
    }

    /// The request's rows of an output.
    #[inline]
    pub fn slice(&self, index: usize) -> Slice<'a> {
        let (spec, output) = (&self.served.signature.outputs[index], &self.outputs[index]);
        let (dtype, column, inner, unbatched) =
            (spec.dtype, &output.column, output.inner(self.unbatched), self.unbatched);
        match inner {
            [.., 1] if self.flat && inner.len() == 1 + usize::from(unbatched) => {
                Slice { dtype, column, inner: &inner[..inner.len() - 1], first: self.first, rows: self.rows, unbatched }
            }
            _ => Slice { dtype, column, inner, first: self.first, rows: self.rows, unbatched },
        }
    }

    /// All outputs with their names.
    pub fn all_named(&self) -> impl Iterator<Item = (&'a str, Slice<'a>)> + Clone {
        (0..self.outputs.len()).map(|index| self.named(index))
    }

    /// The rows as a classification or a regression.
    pub fn inference(&self, outputs: InferenceOutputs) -> Result<Inference<'a>, Status> {
        match outputs {
            InferenceOutputs::Classify { classes, scores } => {
                Inference::classes(classes.map(|at| self.slice(at)), scores.map(|at| self.slice(at)), self.examples)
            }
            InferenceOutputs::Regress(at) => Inference::regression(self.slice(at), self.examples),
        }
    }
}
