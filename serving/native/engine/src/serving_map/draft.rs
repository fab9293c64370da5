//! The next serving map: built from the current one by changes, all or nothing.

use std::collections::HashMap;
use std::sync::Arc;

use crate::request_id::Share;
use crate::serving_map::change::{Change, Wiring};
use crate::serving_map::map::{Model, STABLE, ServingMap, Shadow, show_numbers};
use crate::serving_map::split::Split;

/// A model being changed.
#[derive(Default)]
struct Draft {
    model: Model,
    labels: Option<HashMap<String, i64>>,
    shadow: Option<(i64, Share)>,
}

impl ServingMap {
    /// The map after these changes, or why it cannot be. Order matters only between changes about one version.
    pub fn after(&self, changes: Vec<Change>, wiring: &Wiring) -> Result<ServingMap, String> {
        let (mut drafts, mut tunings) = (HashMap::<String, Draft>::new(), Vec::new());
        for change in changes {
            if let Change::SetBatching { model, batching } = change {
                batching.check().map_err(|why| format!("batching of model '{model}': {why}"))?;
                tunings.push((model, batching));
                continue;
            }
            let draft = drafts.entry(change.model().to_owned()).or_insert_with_key(|name| Draft {
                model: self.models.get(name).map(|model| Model::clone(model)).unwrap_or_default(),
                ..Draft::default()
            });
            draft.take(change, wiring)?;
        }
        let mut next = self.clone();
        for (name, draft) in drafts {
            let model = draft.finish(&name)?;
            next.models.insert(name, Arc::new(model));
        }
        for (model, batching) in tunings {
            next.versions_of(&model).for_each(|version| version.tune(&batching));
        }
        Ok(next)
    }
}

impl Draft {
    fn take(&mut self, change: Change, wiring: &Wiring) -> Result<(), String> {
        match change {
            Change::Publish(publish) => {
                let version = publish.start(wiring)?;
                let (name, number) = (version.model.clone(), version.number);
                if self.model.versions.insert(number, version).is_some() {
                    return Err(format!("model '{name}' version {number} is published already: retire it first"));
                }
            }
            Change::Retire { model, version } => {
                if self.model.versions.remove(&version).is_none() {
                    return Err(format!("model '{model}' version {version} is not published: it cannot be retired"));
                }
            }
            Change::SetLabels { labels, waiting, .. } => {
                self.model.stable_waits = waiting.contains(STABLE);
                self.labels = Some(labels);
            }
            Change::SetDefault { version, .. } => self.model.preferred = version,
            Change::SetShadow { model, version, fraction } => {
                let share = share(&format!("the shadow's fraction for model '{model}'"), fraction)?;
                self.shadow = Some((version, share));
            }
            Change::SetLog { model, rate } => {
                self.model.logged = share(&format!("the log's sampling rate for model '{model}'"), rate)?;
            }
            Change::SetSplit { shares, .. } if shares.is_empty() => self.model.split = None,
            Change::SetSplit { model, shares, key } => self.model.split = Some(Split::new(&model, shares, &key)?),
            Change::SetDisabled { reason, .. } => self.model.disabled = reason.map(Into::into),
            Change::SetBatching { .. } => {}
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
        let newest = || self.model.versions.values().next_back().filter(|_| !self.model.stable_waits);
        self.model.default = preferred.or_else(|| resolved.get(STABLE)).or_else(newest).cloned();
        self.model.preferred = preferred.map(|version| version.number);
        self.model.labels = resolved;
        Ok(self.model)
    }
}

fn share(what: &str, fraction: f64) -> Result<Share, String> {
    Share::new(fraction).ok_or_else(|| format!("{what} is {fraction}: it must be between 0 and 1"))
}
