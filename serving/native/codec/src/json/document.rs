//! What the bodies of all REST requests have in common: one object, which may name a signature.

use crate::json::scanner::Scanner;
use crate::status::{Code, Status};

/// A scanner before the object that a body must be.
pub(crate) fn open_document(body: &[u8]) -> Result<Scanner<'_>, Status> {
    let mut scanner = Scanner::new(body);
    match scanner.peek() {
        0 if body.is_empty() => Err(Status::invalid("JSON Parse error: The document is empty")),
        0 => Err(scanner.error("The document is empty.")),
        b'{' => Ok(scanner),
        _ => {
            let mut whole = scanner;
            whole.skip()?;
            Err(Status::invalid(format!("JSON Value: {} Is not object", scanner.show_value())))
        }
    }
}

/// TensorFlow Serving parses a body before it looks at what is in it, so of one that is no JSON it says that and nothing
/// else. Bodies of more bytes than this are not read once more to find out.
const REREAD_BYTES: usize = 1 << 20;

/// What is to be said of a body in which something is wrong: that it is no JSON, where it is none.
#[cold]
pub(crate) fn malformed_before(document: Scanner<'_>, why: Status) -> Status {
    if why.code != Code::InvalidArgument && why.code != Code::Unimplemented || document.text_len() > REREAD_BYTES {
        return why;
    }
    { document }.skip().err().unwrap_or(why)
}

/// The value of `signature_name`.
pub(crate) fn read_signature_name(scanner: &mut Scanner<'_>, document: Scanner<'_>) -> Result<String, Status> {
    if scanner.peek() != b'"' {
        let value = document.show_value();
        return Err(Status::invalid(format!(
            "JSON Value: {value} not formatted correctly. 'signature_name' key must be a string value."
        )));
    }
    Ok(String::from_utf8_lossy(scanner.name(&mut Vec::new())?).into_owned())
}
