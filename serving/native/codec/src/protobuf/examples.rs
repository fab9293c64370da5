//! The examples of a request, still serialized: TensorFlow Serving's `Input`, and the requests that carry one.

use std::borrow::Cow;

use crate::model_spec::ModelSpec;
use crate::protobuf::wire::{self, Reader};
use crate::status::Status;

/// Serialized examples, and what stands before each of them.
#[derive(Debug, Default)]
pub struct ExampleInput<'a> {
    /// A serialized example that all others share; a feature that an example has too is the example's.
    pub context: Cow<'a, [u8]>,
    /// Serialized examples.
    pub examples: Examples<'a>,
}

/// Serialized examples in order, kept as lists on the wire: an empty one has two bytes there, and a slice of it many.
#[derive(Debug, Default)]
pub struct Examples<'a> {
    lists: Vec<&'a [u8]>,
    made: Vec<u8>,
    count: usize,
}

impl<'a> Examples<'a> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds one that was made from another format.
    pub fn push(&mut self, example: &[u8]) {
        wire::put_bytes(&mut self.made, EXAMPLES, example);
        self.count += 1;
    }

    /// Adds those of an `ExampleList`, in which everything can be read.
    fn push_list(&mut self, list: &'a [u8], count: usize) {
        if count > 0 {
            self.lists.push(list);
            self.count += count;
        }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.lists.iter().copied().chain([&*self.made]).flat_map(|list| {
            let mut reader = Reader::new(list);
            std::iter::from_fn(move || reader.next_field().ok().flatten())
                .filter(|found| found.number == EXAMPLES)
                .filter_map(|found| found.bytes("ExampleList").ok())
        })
    }
}

/// The field of the examples in both kinds of lists.
const EXAMPLES: u32 = 1;

impl<'a> ExampleInput<'a> {
    /// What they become in bytes where a model gets each with the context before it; the examples' own bytes left out.
    pub fn with_context(&self) -> usize {
        self.context.len().saturating_mul(self.examples.len())
    }

    /// Reads an `Input` message: an `ExampleList`, or an `ExampleListWithContext`. The last kind sent counts.
    pub fn parse(message: &'a [u8]) -> Result<ExampleInput<'a>, Status> {
        const MESSAGE: &str = "Input";
        let mut input = ExampleInput::default();
        let mut kind = 0;
        let mut reader = Reader::new(message);
        while let Some(found) = reader.next_field()? {
            if !matches!(found.number, 1 | 2) {
                continue;
            }
            if found.number != kind {
                (kind, input) = (found.number, ExampleInput::default());
            }
            let (list, mut count) = (found.bytes(MESSAGE)?, 0);
            let mut parts = Reader::new(list);
            while let Some(part) = parts.next_field()? {
                match part.number {
                    EXAMPLES => count += part.bytes("ExampleList").map(|_| 1)?,
                    // Messages end to end are one message: what came before stays.
                    2 if kind == 2 => input.context.to_mut().extend_from_slice(part.bytes("ExampleListWithContext")?),
                    _ => {}
                }
            }
            input.examples.push_list(list, count);
        }
        Ok(input)
    }
}

/// Reads a `ClassificationRequest` or a `RegressionRequest`, which have the same fields.
pub fn parse_request(message: &[u8]) -> Result<(ModelSpec<'_>, ExampleInput<'_>), Status> {
    const MESSAGE: &str = "ClassificationRequest";
    let mut spec = None;
    let mut input = ExampleInput::default();
    let mut reader = Reader::new(message);
    while let Some(found) = reader.next_field()? {
        match found.number {
            1 => spec = Some(ModelSpec::parse(found.bytes(MESSAGE)?)?),
            2 => input = ExampleInput::parse(found.bytes(MESSAGE)?)?,
            _ => {}
        }
    }
    let spec = spec.ok_or_else(|| Status::invalid("Missing ModelSpec"))?;
    Ok((spec, input))
}
