//! The answer to a `ModelInfer` request, before it has the form of a protocol.

use crate::dtype::DType;
use crate::open_inference::classification::Classification;
use crate::tensors::{Slice, Tensor};

/// How an output is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputForm {
    /// As values: `contents` of a message, `data` of JSON.
    #[default]
    Values,
    /// As bytes: `raw_output_contents` of a message, binary data behind JSON.
    Bytes,
}

/// One output of an answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerOutput {
    /// Its place in the signature.
    pub index: usize,
    /// How it is sent.
    pub form: OutputForm,
    /// Where labels are wanted instead of it.
    pub classification: Option<Classification>,
}

/// What a client gets: what it called its request, and these outputs in this order.
#[derive(Debug)]
pub struct InferAnswer {
    /// Empty where the client gave none.
    pub id: Box<str>,
    /// Each with its form.
    pub outputs: Box<[AnswerOutput]>,
}

/// An output with its name, as it goes to the client.
pub struct NamedOutput<'a> {
    /// Its name.
    pub name: &'a str,
    slice: Slice<'a>,
    labels: Option<Tensor>,
    /// How it is sent.
    pub form: OutputForm,
}

impl NamedOutput<'_> {
    /// Its elements.
    pub fn slice(&self) -> Slice<'_> {
        let Some(Tensor { column, shape }) = &self.labels else { return self.slice };
        Slice { dtype: DType::String, column, inner: shape, first: 0, rows: 1, unbatched: true }
    }
}

impl InferAnswer {
    /// The outputs, of which `output` gives names and elements.
    pub(crate) fn named<'a>(&self, output: impl Fn(usize) -> (&'a str, Slice<'a>)) -> Vec<NamedOutput<'a>> {
        let named = |wanted: &AnswerOutput| {
            let (name, slice) = output(wanted.index);
            let labels = wanted.classification.map(|classification| classification.apply(&slice));
            NamedOutput { name, slice, labels, form: wanted.form }
        };
        self.outputs.iter().map(named).collect()
    }
}
