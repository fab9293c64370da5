//! The examples of a request, still serialized: TensorFlow Serving's `Input`, and the requests that carry one.

use std::borrow::Cow;

use crate::model_spec::ModelSpec;
use crate::protobuf::wire::Reader;
use crate::status::Status;

/// Serialized examples, and what stands before each of them.
#[derive(Debug, Default)]
pub struct ExampleInput<'a> {
    /// A serialized example that all others share; a feature that an example has too is the example's.
    pub context: Cow<'a, [u8]>,
    /// Serialized examples.
    pub examples: Vec<Cow<'a, [u8]>>,
}

impl<'a> ExampleInput<'a> {
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
            let mut list = Reader::new(found.bytes(MESSAGE)?);
            while let Some(part) = list.next_field()? {
                match part.number {
                    1 => input.examples.push(part.bytes("ExampleList")?.into()),
                    // Messages end to end are one message: what came before stays.
                    2 if kind == 2 => input.context.to_mut().extend_from_slice(part.bytes("ExampleListWithContext")?),
                    _ => {}
                }
            }
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
