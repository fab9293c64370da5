//! Which versions serve, under which labels, with which shadow and log share: one table that is swapped whole.
//! `apply` builds the next table from changes, all or nothing; requests read the current one without waiting.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::by_name::ByName;
use crate::predict_request::Choice;
use crate::request_id::Share;
use crate::split::{Asker, Split};
use crate::status::{Code, Status};
use crate::version::Version;

/// The label that a request without version or label goes to, where it exists.
pub const STABLE: &str = "stable";

/// A share of a model's requests that another version gets a copy of.
#[derive(Clone, Debug)]
pub struct Shadow {
    /// Who gets the copies.
    pub version: Arc<Version>,
    /// Which requests.
    pub share: Share,
}

/// All that is known of one model.
#[derive(Clone, Debug, Default)]
pub struct Model {
    versions: BTreeMap<i64, Arc<Version>>,
    labels: HashMap<String, Arc<Version>>,
    /// None too while the label `stable` waits for its version: nobody lands on another by accident.
    default: Option<Arc<Version>>,
    stable_waits: bool,
    /// Whom requests without version and label go to instead of the newest, where no label `stable` says otherwise.
    preferred: Option<i64>,
    /// Who answers requests without version and label, where it is not the default alone.
    split: Option<Split>,
    /// Why every request is refused, where it is.
    off: Option<Arc<str>>,
    /// Copies for another version.
    pub shadow: Option<Shadow>,
    /// Share of answers that are logged.
    pub logged: Share,
}

impl Model {
    /// The version that a request wants.
    ///
    /// Without an asker no split is drawn, and the default answers.
    #[inline]
    pub fn choose(&self, name: &str, choice: Choice<'_>, asker: Option<&Asker<'_>>) -> Result<&Arc<Version>, Status> {
        if let Some(reason) = &self.off {
            return Err(Status::new(Code::Unavailable, format!("model '{name}' is switched off: {reason}")));
        }
        let found = match choice {
            Choice::Any => self.drawn(asker).or(self.default.as_ref()),
            Choice::Version(number) => self.versions.get(&number),
            Choice::Label(label) => self.labels.get(label),
        };
        found.ok_or_else(|| match choice {
            Choice::Any if self.stable_waits && !self.versions.is_empty() => Status::new(
                Code::Unavailable,
                format!(
                    "label '{STABLE}' of model '{name}' waits for its version, which is not available now: ask for \
                     one of versions {} by number, or try again",
                    show_numbers(&self.versions)
                ),
            ),
            Choice::Any => Status::not_found(format!("Servable not found for request: Latest({name})")),
            Choice::Version(number) => {
                Status::not_found(format!("Servable not found for request: Specific({name}, {number})"))
            }
            Choice::Label(label) => no_label(label),
        })
    }
}

impl Model {
    fn drawn(&self, asker: Option<&Asker<'_>>) -> Option<&Arc<Version>> {
        self.split.as_ref()?.draw(asker?)
    }
}

/// The whole table.
#[derive(Clone, Debug, Default)]
pub struct ServingMap {
    models: ByName<Arc<Model>>,
}

impl ServingMap {
    /// The model and version that a request wants.
    #[inline]
    pub fn resolve(
        &self,
        name: &str,
        choice: Choice<'_>,
        asker: Option<&Asker<'_>>,
    ) -> Result<(&Arc<Model>, &Arc<Version>), Status> {
        if name.is_empty() {
            return Err(Status::invalid("ModelSpec has no name specified."));
        }
        match self.models.get(name) {
            Some(model) => Ok((model, model.choose(name, choice, asker)?)),
            None => Model::default().choose(name, without_label(choice), None).map(|_| unreachable!()),
        }
    }

    /// The version that a label names, whether or not the model takes requests now.
    pub fn labelled(&self, name: &str, label: &str) -> Result<i64, Status> {
        let found = self.models.get(name).and_then(|model| model.labels.get(label));
        found.map(|version| version.number).ok_or_else(|| no_label(label))
    }

    /// Every version in it.
    pub fn versions(&self) -> impl Iterator<Item = &Arc<Version>> {
        self.models.values().flat_map(|model| model.versions.values())
    }

    /// The versions of one model.
    pub fn versions_of(&self, name: &str) -> impl Iterator<Item = &Arc<Version>> {
        self.models.get(name).into_iter().flat_map(|model| model.versions.values())
    }

    /// The versions that are in it and not in the next one, found in proportion to what changed.
    pub fn gone<'a>(&'a self, next: &'a ServingMap) -> impl Iterator<Item = &'a Arc<Version>> {
        let changed = self.models.values_not_shared(&next.models);
        changed.flat_map(|model| model.versions.values()).filter(|version| !next.holds(version))
    }

    /// Whether this very version is in it.
    pub fn holds(&self, version: &Arc<Version>) -> bool {
        let found = self.models.get(&version.model).and_then(|model| model.versions.get(&version.number));
        found.is_some_and(|found| Arc::ptr_eq(found, version))
    }
}

fn no_label(label: &str) -> Status {
    Status::invalid(format!("Unrecognized servable version label: {label}"))
}

/// An unknown model is not found, whatever label was asked for.
fn without_label(choice: Choice<'_>) -> Choice<'_> {
    if let Choice::Label(_) = choice { Choice::Any } else { choice }
}

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
    Off(String, Option<String>),
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
            | Step::Off(name, _) => name,
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
            Step::Off(_, reason) => self.model.off = reason.map(Into::into),
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
        // A shadow that nobody set anew ends with its version.
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

fn show_numbers(versions: &BTreeMap<i64, Arc<Version>>) -> String {
    if versions.is_empty() {
        return "none".to_owned();
    }
    versions.keys().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
