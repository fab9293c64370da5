//! `GetModelStatus`: the state of each version, as the lifecycle told the plane, in protobuf and TensorFlow Serving's JSON.
//! Python sets a model's states whenever one changes; both endpoints read them here, and labels in the serving map.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

use crate::json_response::write_text;
use crate::lock;
use crate::metrics::escape;
use crate::predict_request::{Choice, ModelSpec};
use crate::serving_map::ServingMap;
use crate::status::{Code, Status};
use crate::wire::{self, Reader};

/// Where one version stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionState {
    /// Its number.
    pub version: i64,
    /// `ModelVersionStatus.State`: 10 start, 20 loading, 30 available, 40 unloading, 50 end.
    pub state: u64,
    /// Why it ended, if it was for an error.
    pub status: Status,
}

/// The states of all models that were ever heard of.
#[derive(Debug, Default)]
pub struct ModelStates {
    models: Mutex<HashMap<String, Arc<[VersionState]>>>,
}

impl ModelStates {
    /// Replaces a model's states; none forgets it.
    pub fn set(&self, model: &str, states: Vec<VersionState>) {
        let mut models = lock(&self.models);
        if states.is_empty() {
            models.remove(model);
        } else {
            models.insert(model.to_owned(), states.into());
        }
    }

    /// Samples of `tidegate_version_state`, of all models or of one: the state in which each version is.
    pub fn samples(&self, only: Option<&str>) -> Vec<(String, f64)> {
        let known: Vec<_> = {
            let models = lock(&self.models);
            let wanted = models.iter().filter(|(model, _)| only.is_none_or(|only| only == *model));
            wanted.map(|(model, states)| (model.clone(), states.clone())).collect()
        };
        let mut list = Vec::new();
        for (model, states) in &known {
            let model = escape(model);
            for VersionState { version, state, .. } in states.iter() {
                let labels = format!("model=\"{model}\",version=\"{version}\",state=\"{}\"", state_name(*state));
                list.push((format!("tidegate_version_state{{{labels}}}"), 1.0));
            }
        }
        list
    }

    /// The states that a request asks for: of all versions, or of the one that it names by number or label.
    pub fn find(&self, spec: &ModelSpec<'_>, map: &ServingMap) -> Result<Vec<VersionState>, Status> {
        let known = lock(&self.models).get(spec.name).cloned();
        let known =
            known.ok_or_else(|| Status::not_found(format!("Could not find any versions of model {}", spec.name)))?;
        let wanted = match spec.choice {
            Choice::Any => return Ok(known.to_vec()),
            Choice::Version(number) => number,
            Choice::Label(label) => map.labelled(spec.name, label)?,
        };
        let found = known.iter().find(|state| state.version == wanted);
        let found = found
            .ok_or_else(|| Status::not_found(format!("Could not find version {wanted} of model {}", spec.name)))?;
        Ok(vec![found.clone()])
    }
}

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

/// The same as JSON, with the version as a string.
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
        state_name(state.state),
        state.status.code.name(),
        String::from_utf8_lossy(&quoted)
    );
    out
}
