//! `GET /v1/models/...`: the state of each version, laid out as TensorFlow Serving does.

use std::fmt::Write;

use crate::json::text::write_text;
use crate::version_state::VersionState;

/// The body, with the version as a string.
pub fn to_json(states: &[VersionState]) -> Vec<u8> {
    let items: Vec<String> = states.iter().map(version_json).collect();
    let mut text = String::from("{\n \"model_version_status\": [\n");
    text.push_str(&items.join(",\n"));
    text.push_str("\n ]\n}\n");
    text.into_bytes()
}

fn version_json(state: &VersionState) -> String {
    let mut quoted = Vec::new();
    write_text(&mut quoted, &state.status.message);
    let mut out = String::new();
    let _ = write!(
        out,
        "  {{\n   \"version\": \"{}\",\n   \"state\": \"{}\",\n   \"status\": {{\n    \"error_code\": \"{}\",\n    \
         \"error_message\": {}\n   }}\n  }}",
        state.version,
        state.name(),
        state.status.code.name(),
        String::from_utf8_lossy(&quoted)
    );
    out
}
