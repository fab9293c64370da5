//! What Python raised, as a status, and the texts that Python gives, bounded.

use pyo3::prelude::*;
use pyo3::types::{PySlice, PyString};
use tidegate_codec::status::{Code, Status};

/// Characters of a text that a model gave which clients and logs get at most; the contract's errors have no longer ones.
const MOST_CHARACTERS: usize = 16_003;

/// What stands in place of what UTF-8 cannot say is not the same, but no reason to fail.
pub(crate) fn few_words(text: &Bound<'_, PyString>) -> String {
    let kept = text.as_any().get_item(PySlice::new(text.py(), 0, MOST_CHARACTERS as isize, 1));
    kept.map_or_else(|_| String::new(), |kept| kept.to_string())
}

/// An exception's integer `grpc_code`, or INTERNAL, with its text, and whether it says `ended_process`.
pub(crate) fn to_status(py: Python<'_>, error: &PyErr) -> Status {
    let value = error.value(py);
    let text = value.str().map_or_else(|_| String::new(), |text| few_words(&text));
    let code = value.getattr("grpc_code").ok().and_then(|code| code.extract::<i64>().ok());
    let ended_process = value.getattr("ended_process").is_ok_and(|ended| ended.is_truthy().unwrap_or_default());
    match code.map(Code::from_number) {
        Some(code) if code != Code::Ok => Status { ended_process, ..Status::new(code, text) },
        _ => {
            let kind = value.get_type().name().map_or_else(|_| "exception".to_owned(), |name| name.to_string());
            Status::internal(if text.is_empty() { kind } else { format!("{kind}: {text}") })
        }
    }
}
