//! What the bodies of all REST requests have in common: one object, which may name a signature.

use crate::json::scanner::Scanner;
use crate::status::Status;

/// A scanner before the object that a body must be.
pub(crate) fn open_document(body: &[u8]) -> Result<Scanner<'_>, Status> {
    let mut scanner = Scanner::new(body);
    match scanner.peek() {
        0 => Err(Status::invalid("JSON Parse error: The document is empty")),
        b'{' => Ok(scanner),
        _ => {
            let mut whole = scanner;
            whole.skip()?;
            Err(Status::invalid(format!("JSON Value: {} Is not object", scanner.show_value())))
        }
    }
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
