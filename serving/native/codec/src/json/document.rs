//! What the bodies of all REST requests have in common: one object, which may name a signature.

use crate::json::scanner::Scanner;
use crate::status::{Code, Status};

/// UTF-8's byte order mark, with which PowerShell and editors of Windows begin a file.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// A body without the mark, if it has one.
pub(crate) fn behind_mark(body: &[u8]) -> &[u8] {
    body.strip_prefix(MARK).unwrap_or(body)
}

/// The same of a body that is not known to be JSON yet. UTF-16 is refused by name.
pub(crate) fn text_of(body: &[u8]) -> Result<&[u8], Status> {
    match body {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] | [b'{' | b'[', 0, ..] | [0, b'{' | b'[', ..] => {
            Err(Status::invalid("JSON Parse error: the body is UTF-16: send it as UTF-8"))
        }
        _ => Ok(behind_mark(body)),
    }
}

/// A scanner before the object that a body must be.
pub(crate) fn open_document(body: &[u8]) -> Result<Scanner<'_>, Status> {
    let body = text_of(body)?;
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
