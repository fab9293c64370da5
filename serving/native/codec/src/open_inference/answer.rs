//! The answer to a `ModelInfer` request, before it has the form of a protocol.

use crate::dtype::DType;
use crate::open_inference::classification::Classification;
use crate::open_inference::raw;
use crate::open_inference::shared_memory::{OpenPlace, Place};
use crate::status::Status;
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
#[derive(Clone, Debug)]
pub struct AnswerOutput {
    /// Its place in the signature.
    pub index: usize,
    /// How it is sent.
    pub form: OutputForm,
    /// Where labels are wanted instead of it.
    pub classification: Option<Classification>,
    /// Where it is written in shared memory.
    pub place: Option<OpenPlace>,
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
    /// Where it is written instead.
    pub place: Option<&'a OpenPlace>,
}

impl NamedOutput<'_> {
    /// Its elements.
    pub fn slice(&self) -> Slice<'_> {
        let Some(Tensor { column, shape }) = &self.labels else { return self.slice };
        Slice { dtype: DType::String, column, inner: shape, first: 0, rows: 1, unbatched: true }
    }

    /// Writes it into shared memory where it belongs there: the place, and how many bytes it has.
    pub(crate) fn write_shared(&self) -> Result<Option<(&Place, usize)>, Status> {
        let Some(open) = self.place else { return Ok(None) };
        let mut bytes = Vec::new();
        raw::write(&mut bytes, &self.slice());
        open.write(self.name, &bytes)?;
        Ok(Some((&open.place, bytes.len())))
    }
}

impl InferAnswer {
    /// The outputs, of which `output` gives names and elements.
    pub(crate) fn named<'a>(&'a self, output: impl Fn(usize) -> (&'a str, Slice<'a>)) -> Vec<NamedOutput<'a>> {
        let named = |wanted: &'a AnswerOutput| {
            let (name, slice) = output(wanted.index);
            let labels = wanted.classification.map(|classification| classification.apply(&slice));
            NamedOutput { name, slice, labels, form: wanted.form, place: wanted.place.as_ref() }
        };
        self.outputs.iter().map(named).collect()
    }
}
