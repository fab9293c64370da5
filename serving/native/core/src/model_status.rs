//! `GetModelStatus` for the REST door: its request as protobuf, its answer as TensorFlow Serving's JSON.
//! The answer itself comes from Python through the control line.

use std::fmt::Write;

use crate::json_response::write_text;
use crate::predict_request::ModelSpec;
use crate::status::{Code, Status};
use crate::wire::{self, Reader};

/// `GetModelStatusRequest`.
pub fn encode_request(spec: &ModelSpec<'_>) -> Vec<u8> {
    let mut inner = Vec::new();
    spec.write(&mut inner);
    let mut message = Vec::new();
    wire::put_bytes(&mut message, 1, &inner);
    message
}

fn state_name(state: u64) -> &'static str {
    match state {
        10 => "START",
        20 => "LOADING",
        30 => "AVAILABLE",
        40 => "UNLOADING",
        50 => "END",
        _ => "UNKNOWN",
    }
}

/// `GetModelStatusResponse` as JSON, with the version as a string.
pub fn to_json(response: &[u8]) -> Result<Vec<u8>, Status> {
    let mut items = Vec::new();
    let mut reader = Reader::new(response);
    while let Some(found) = reader.next_field()? {
        if found.number == 1 {
            items.push(version_json(found.bytes("GetModelStatusResponse")?)?);
        }
    }
    let mut text = String::from("{\n \"model_version_status\": [\n");
    text.push_str(&items.join(",\n"));
    text.push_str("\n ]\n}\n");
    Ok(text.into_bytes())
}

fn version_json(message: &[u8]) -> Result<String, Status> {
    const MESSAGE: &str = "ModelVersionStatus";
    let (mut version, mut state, mut code, mut text) = (0i64, 0, 0, "");
    let mut reader = Reader::new(message);
    while let Some(found) = reader.next_field()? {
        match found.number {
            1 => version = found.varint(MESSAGE)? as i64,
            2 => state = found.varint(MESSAGE)?,
            3 => {
                let mut status = Reader::new(found.bytes(MESSAGE)?);
                while let Some(part) = status.next_field()? {
                    match part.number {
                        1 => code = part.varint("StatusProto")? as i64,
                        2 => text = part.text("StatusProto")?,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    let mut quoted = Vec::new();
    write_text(&mut quoted, text);
    let mut out = String::new();
    let _ = write!(
        out,
        "  {{\n   \"version\": \"{version}\",\n   \"state\": \"{}\",\n   \"status\": {{\n    \"error_code\": \"{}\",\n    \
         \"error_message\": {}\n   }}\n  }}",
        state_name(state),
        Code::from_number(code).name(),
        String::from_utf8_lossy(&quoted)
    );
    Ok(out)
}
