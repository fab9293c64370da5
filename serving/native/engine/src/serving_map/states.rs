//! The lifecycle states of all versions, as Python sets them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tidegate_codec::model_spec::{ModelSpec, VersionChoice};
use tidegate_codec::status::Status;
use tidegate_codec::version_state::VersionState;

use crate::metrics::{Samples, escape};
use crate::serving_map::map::ServingMap;
use crate::sync::lock;

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

    /// Replaces the states of all models at once.
    pub fn replace(&self, all: HashMap<String, Vec<VersionState>>) {
        let all = all.into_iter().map(|(model, states)| (model, states.into())).collect();
        *lock(&self.models) = all;
    }

    /// The states of all versions of all models.
    pub fn all(&self) -> Vec<(String, VersionState)> {
        let models = lock(&self.models);
        let each = models.iter().flat_map(|(model, states)| states.iter().map(move |state| (model, state)));
        each.map(|(model, state)| (model.clone(), state.clone())).collect()
    }

    /// Samples of `tidegate_version_state`, of all models or of one: the state in which each version is.
    pub fn samples(&self, only: Option<&str>, list: &mut impl Samples) {
        let known: Vec<_> = {
            let models = lock(&self.models);
            let wanted = models.iter().filter(|(model, _)| only.is_none_or(|only| only == *model));
            wanted.map(|(model, states)| (model.clone(), states.clone())).collect()
        };
        for (model, states) in &known {
            let model = escape(model);
            for state in states.iter() {
                let (number, name) = (state.version, state.name());
                let labels = format!("model=\"{model}\",version=\"{number}\",state=\"{name}\"");
                list.add("tidegate_version_state", "", format_args!("{labels}"), 1.0);
            }
        }
    }

    /// The states that a request asks for: of all versions, or of the one that it names by number or label.
    pub fn find(&self, spec: &ModelSpec<'_>, map: &ServingMap) -> Result<Vec<VersionState>, Status> {
        let known = lock(&self.models).get(spec.name).cloned();
        let wanted = match (spec.choice, &known) {
            (VersionChoice::Version(number), _) => number,
            (_, None) => {
                return Err(Status::not_found(format!("Could not find any versions of model {}", spec.name)));
            }
            (VersionChoice::Any, Some(known)) => return Ok(known.to_vec()),
            (VersionChoice::Label(label), Some(_)) => map.labelled(spec.name, label)?,
        };
        let found = known.iter().flat_map(|all| all.iter()).find(|state| state.version == wanted);
        let found = found
            .ok_or_else(|| Status::not_found(format!("Could not find version {wanted} of model {}", spec.name)))?;
        Ok(vec![found.clone()])
    }
}
