//! Whether the server and its models answer, as REST clients read it: in JSON beside the status of the answer.

use crate::json::text::write_text;

/// To `GET /`, as KServe's servers say it.
pub const ALIVE: &[u8] = b"{\"status\":\"alive\"}";

/// To `GET /v2/health/live`.
pub const LIVE: &[u8] = b"{\"live\":true}";

/// To `GET /v2/health/ready`, with what there is to say of it.
pub fn ready_json(ready: bool, reason: &str) -> Vec<u8> {
    let mut out = format!("{{\"ready\":{ready}").into_bytes();
    if !reason.is_empty() {
        write_member(&mut out, if ready { "reason" } else { "error" }, reason);
    }
    out.push(b'}');
    out
}

/// To `GET /v2/models/NAME/ready`, with the error that a request would be answered with.
pub fn model_ready_json(name: &str, error: Option<&str>) -> Vec<u8> {
    let mut out = b"{\"name\":".to_vec();
    write_text(&mut out, name);
    out.extend_from_slice(format!(",\"ready\":{}", error.is_none()).as_bytes());
    if let Some(error) = error {
        write_member(&mut out, "error", error);
    }
    out.push(b'}');
    out
}

fn write_member(out: &mut Vec<u8>, key: &str, text: &str) {
    out.extend_from_slice(format!(",\"{key}\":").as_bytes());
    write_text(out, text);
}
