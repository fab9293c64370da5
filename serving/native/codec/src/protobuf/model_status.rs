//! `GetModelStatus`: the request, and the state of each version as its answer.

use crate::model_spec::ModelSpec;
use crate::protobuf::wire::{self, Reader};
use crate::status::{Code, Status};
use crate::version_state::VersionState;

/// `GetModelStatusRequest`.
pub fn parse_request(message: &[u8]) -> Result<ModelSpec<'_>, Status> {
    let mut spec = None;
    let mut reader = Reader::new(message);
    while let Some(found) = reader.next_field()? {
        if found.number == 1 {
            spec = Some(ModelSpec::parse(found.bytes("GetModelStatusRequest")?)?);
        }
    }
    spec.ok_or_else(|| Status::invalid("Missing ModelSpec"))
}

/// `GetModelStatusResponse`.
pub fn encode_response(states: &[VersionState]) -> Vec<u8> {
    let mut message = Vec::new();
    for VersionState { version, state, status } in states {
        let (mut inner, mut reason) = (Vec::new(), Vec::new());
        if *version != 0 {
            wire::put_uint(&mut inner, 1, *version as u64);
        }
        wire::put_uint(&mut inner, 2, *state);
        if status.code != Code::Ok {
            wire::put_uint(&mut reason, 1, status.code as u64);
            wire::put_bytes(&mut reason, 2, status.message.as_bytes());
        }
        wire::put_bytes(&mut inner, 3, &reason);
        wire::put_bytes(&mut message, 1, &inner);
    }
    message
}
