//! A model's own `SignatureDefMap`: which tensors of its graph stand behind the inputs and outputs of its signatures.

use crate::protobuf::wire::{self, Reader};
use crate::status::Status;

/// A name in a signature, and that of the tensor in the graph.
pub type Named<'a> = (&'a str, &'a str);

/// One signature.
#[derive(Debug, Default)]
pub struct SignatureDef<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its inputs.
    pub inputs: Vec<Named<'a>>,
    /// Its outputs.
    pub outputs: Vec<Named<'a>>,
}

/// All signatures of a map.
pub fn parse(message: &[u8]) -> Result<Vec<SignatureDef<'_>>, Status> {
    const MESSAGE: &str = "SignatureDefMap";
    let mut found = Vec::new();
    let mut reader = Reader::new(message);
    while let Some(field) = reader.next_field()? {
        if field.number != 1 {
            continue;
        }
        let (name, definition) = wire::read_pair(field.bytes(MESSAGE)?, MESSAGE)?;
        let mut signature = SignatureDef { name: wire::text(name, MESSAGE, 1)?, ..SignatureDef::default() };
        let mut reader = Reader::new(definition);
        while let Some(field) = reader.next_field()? {
            match field.number {
                1 => signature.inputs.push(read_tensor(field.bytes("SignatureDef")?)?),
                2 => signature.outputs.push(read_tensor(field.bytes("SignatureDef")?)?),
                _ => {}
            }
        }
        found.push(signature);
    }
    Ok(found)
}

fn read_tensor(entry: &[u8]) -> Result<Named<'_>, Status> {
    let (name, info) = wire::read_pair(entry, "SignatureDef")?;
    let mut tensor = "";
    let mut reader = Reader::new(info);
    while let Some(field) = reader.next_field()? {
        if field.number == 1 {
            tensor = field.text("TensorInfo")?;
        }
    }
    Ok((wire::text(name, "SignatureDef", 1)?, tensor))
}
