//! The next serving map: built from the current one by steps, all or nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::request_id::Share;
use crate::serving_map::map::{Model, STABLE, ServingMap, Shadow, show_numbers};
use crate::serving_map::split::Split;
use crate::serving_map::version::Version;

/// One step from one table to the next.
#[derive(Clone, Debug)]
pub enum Step {
    /// Adds a version.
    Publish(Arc<Version>),
    /// Takes one out.
    Retire(String, i64),
    /// Replaces a model's labels, and says which more are wanted but wait for their version.
    Labels(String, HashMap<String, i64>, HashSet<String>),
    /// Prefers a version to the newest for requests that name none, or none any more.
    Default(String, Option<i64>),
    /// Sets or, with an empty share, stops the shadow.
    Shadow(String, i64, Share),
    /// Sets the share that is logged.
    Log(String, Share),
    /// Sets or ends the split.
    Split(String, Option<Split>),
    /// Refuses every request for a reason, or none any more.
    Disabled(String, Option<String>),
}

impl Step {
    fn model(&self) -> &str {
        match self {
            Step::Publish(version) => &version.model,
            Step::Retire(name, _)
            | Step::Labels(name, _, _)
            | Step::Default(name, _)
            | Step::Shadow(name, _, _)
            | Step::Log(name, _)
            | Step::Split(name, _)
            | Step::Disabled(name, _) => name,
        }
    }
}

/// A table being built.
#[derive(Default)]
struct Draft {
    model: Model,
    labels: Option<HashMap<String, i64>>,
    shadow: Option<(i64, Share)>,
}

impl ServingMap {
    /// The table after these steps, or why it cannot be. Order matters only between steps about one version.
    pub fn after(&self, steps: Vec<Step>) -> Result<ServingMap, String> {
        let mut drafts: HashMap<String, Draft> = HashMap::new();
        for step in steps {
            let draft = drafts.entry(step.model().to_owned()).or_insert_with_key(|name| Draft {
                model: self.models.get(name).map(|model| Model::clone(model)).unwrap_or_default(),
                ..Draft::default()
            });
            draft.take(step)?;
        }
        let mut next = self.clone();
        for (name, draft) in drafts {
            let model = draft.finish(&name)?;
            next.models.insert(name, Arc::new(model));
        }
        Ok(next)
    }
}

impl Draft {
    fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Publish(version) => {
                let (name, number) = (version.model.clone(), version.number);
                if self.model.versions.insert(number, version).is_some() {
                    return Err(format!("model '{name}' version {number} is published already: retire it first"));
                }
            }
            Step::Retire(name, number) => {
                if self.model.versions.remove(&number).is_none() {
                    return Err(format!("model '{name}' version {number} is not published: it cannot be retired"));
                }
            }
            Step::Labels(_, labels, waiting) => {
                self.model.stable_waits = waiting.contains(STABLE);
                self.labels = Some(labels);
            }
            Step::Default(_, number) => self.model.preferred = number,
            Step::Shadow(_, number, share) => self.shadow = Some((number, share)),
            Step::Log(_, share) => self.model.logged = share,
            Step::Split(_, split) => self.model.split = split,
            Step::Disabled(_, reason) => self.model.disabled = reason.map(Into::into),
        }
        Ok(())
    }

    fn finish(mut self, name: &str) -> Result<Model, String> {
        let numbers = || show_numbers(&self.model.versions);
        let labels = self.labels.unwrap_or_else(|| {
            self.model.labels.iter().map(|(label, version)| (label.clone(), version.number)).collect()
        });
        let mut resolved = HashMap::new();
        for (label, number) in labels {
            let Some(version) = self.model.versions.get(&number) else {
                return Err(format!(
                    "label '{label}' of model '{name}' names version {number}, which would not be published: the \
                     published ones would be {}",
                    numbers()
                ));
            };
            resolved.insert(label, version.clone());
        }
        let wanted = match (self.shadow, &self.model.shadow) {
            (Some((_, share)), _) if share.is_none() => None,
            (Some((number, _)), _) if !self.model.versions.contains_key(&number) => {
                return Err(format!(
                    "the shadow of model '{name}' names version {number}, which would not be published: the published \
                     ones would be {}",
                    numbers()
                ));
            }
            (Some(wanted), _) => Some(wanted),
            (None, current) => current.as_ref().map(|shadow| (shadow.version.number, shadow.share)),
        };
        // A shadow that is not set anew ends with its version.
        self.model.shadow = wanted.and_then(|(number, share)| {
            self.model.versions.get(&number).map(|version| Shadow { version: version.clone(), share })
        });
        self.model.split = self.model.split.map(|split| split.settled(&self.model.versions));
        // A preferred version that has left is preferred no more, also when it comes back.
        let preferred = self.model.preferred.and_then(|number| self.model.versions.get(&number));
        let newest = || self.model.versions.values().next_back();
        let unlabelled = preferred.or_else(newest).filter(|_| !self.model.stable_waits);
        self.model.default = resolved.get(STABLE).or(unlabelled).cloned();
        self.model.preferred = preferred.map(|version| version.number);
        self.model.labels = resolved;
        Ok(self.model)
    }
}
