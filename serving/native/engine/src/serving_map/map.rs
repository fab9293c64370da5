//! The serving map: versions, labels, shadow and log share of each model. Requests read it without waiting.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tidegate_codec::model_spec::VersionChoice;
use tidegate_codec::status::{Code, Status};

use crate::request_id::Share;
use crate::serving_map::by_name::ByName;
use crate::serving_map::split::{Requester, Split};
use crate::serving_map::version::Version;

/// The label that a request without version or label goes to, where it exists and no version is preferred.
pub const STABLE: &str = "stable";

/// A share of a model's requests that another version gets a copy of.
#[derive(Clone, Debug)]
pub struct Shadow {
    /// The version that gets the copies.
    pub version: Arc<Version>,
    /// Which requests.
    pub share: Share,
}

/// All that is known of one model.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub(crate) versions: BTreeMap<i64, Arc<Version>>,
    pub(crate) labels: HashMap<String, Arc<Version>>,
    /// None also while the label `stable` waits for its version, so that no request lands on another by accident, unless
    /// one is preferred.
    pub(crate) default: Option<Arc<Version>>,
    pub(crate) stable_waits: bool,
    /// Where requests without version and label go instead of label `stable` and the newest.
    pub(crate) preferred: Option<i64>,
    /// Which versions answer requests without version and label, where it is not the default alone.
    pub(crate) split: Option<Split>,
    /// Why every request is refused, where it is.
    pub(crate) disabled: Option<Arc<str>>,
    /// Copies for another version.
    pub shadow: Option<Shadow>,
    /// Share of answers that are logged.
    pub logged: Share,
}

impl Model {
    /// The version that a request wants.
    ///
    /// Without an requester no split is drawn, and the default answers.
    #[inline]
    pub fn choose(
        &self,
        name: &str,
        choice: VersionChoice<'_>,
        requester: Option<&Requester<'_>>,
    ) -> Result<&Arc<Version>, Status> {
        if let Some(reason) = &self.disabled {
            return Err(Status::new(Code::Unavailable, format!("model '{name}' is switched off: {reason}")));
        }
        let found = match choice {
            VersionChoice::Any => self.drawn(requester).or(self.default.as_ref()),
            VersionChoice::Version(number) => self.versions.get(&number),
            VersionChoice::Label(label) => self.labels.get(label),
        };
        found.ok_or_else(|| match choice {
            VersionChoice::Any if self.stable_waits && !self.versions.is_empty() => Status::new(
                Code::Unavailable,
                format!(
                    "label '{STABLE}' of model '{name}' waits for its version, which is not available now: ask for \
                     one of versions {} by number, or try again",
                    show_numbers(&self.versions)
                ),
            ),
            VersionChoice::Any => Status::not_found(format!("Servable not found for request: Latest({name})")),
            VersionChoice::Version(number) => {
                Status::not_found(format!("Servable not found for request: Specific({name}, {number})"))
            }
            VersionChoice::Label(label) => no_label(label),
        })
    }

    fn drawn(&self, requester: Option<&Requester<'_>>) -> Option<&Arc<Version>> {
        self.split.as_ref()?.draw(requester?)
    }
}

/// The whole table.
#[derive(Clone, Debug, Default)]
pub struct ServingMap {
    pub(crate) models: ByName<Arc<Model>>,
    /// What is not in it may come yet: versions that are there from the start load.
    starting: bool,
}

impl ServingMap {
    /// Empty, of a server that has not loaded yet what it starts with.
    pub fn of_a_start() -> ServingMap {
        ServingMap { starting: true, ..ServingMap::default() }
    }

    /// The same of a server that has started: what is not there is not found.
    pub fn started(&self) -> ServingMap {
        ServingMap { starting: false, ..self.clone() }
    }

    /// The model and version that a request wants.
    #[inline]
    pub fn resolve(
        &self,
        name: &str,
        choice: VersionChoice<'_>,
        requester: Option<&Requester<'_>>,
    ) -> Result<(&Arc<Model>, &Arc<Version>), Status> {
        if name.is_empty() {
            return Err(Status::invalid("ModelSpec has no name specified."));
        }
        let found = match self.models.get(name) {
            Some(model) => model.choose(name, choice, requester).map(|version| (model, version)),
            None => Model::default().choose(name, without_label(choice), None).map(|_| unreachable!()),
        };
        found.map_err(|why| if self.starting { not_yet(why) } else { why })
    }

    /// The version that a label names, whether or not the model takes requests now.
    pub fn labelled(&self, name: &str, label: &str) -> Result<i64, Status> {
        let found = self.models.get(name).and_then(|model| model.labels.get(label));
        found.map(|version| version.number).ok_or_else(|| no_label(label))
    }

    /// The labels that name a version, in order.
    pub fn labels_of<'a>(&'a self, version: &'a Version) -> impl Iterator<Item = &'a str> {
        let labels = self.models.get(&version.model).into_iter().flat_map(|model| &model.labels);
        let named = labels.filter(|(_, labelled)| labelled.number == version.number).map(|(label, _)| label.as_str());
        BTreeSet::from_iter(named).into_iter()
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

/// Clients and proxies try again where something is unavailable, and give up where it is not found.
#[cold]
fn not_yet(why: Status) -> Status {
    match why.code {
        Code::Unavailable => why,
        _ => Status::new(Code::Unavailable, format!("{}: the server is starting, so ask again", why.message)),
    }
}

fn no_label(label: &str) -> Status {
    Status::invalid(format!("Unrecognized servable version label: {label}"))
}

/// An unknown model is not found, whatever label was asked for.
fn without_label(choice: VersionChoice<'_>) -> VersionChoice<'_> {
    if let VersionChoice::Label(_) = choice { VersionChoice::Any } else { choice }
}

pub(crate) fn show_numbers(versions: &BTreeMap<i64, Arc<Version>>) -> String {
    if versions.is_empty() {
        return "none".to_owned();
    }
    versions.keys().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
