//! Gauges that Python sets, by family.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::metrics::prometheus::{Samples, escape};
use crate::sync::lock;

/// One sample: its labels in order, and its value.
pub type Gauge = (Vec<(String, String)>, f64);

#[derive(Debug)]
struct Family {
    help: String,
    gauges: Vec<Gauge>,
}

/// All families by name.
#[derive(Debug, Default)]
pub struct Gauges(Mutex<BTreeMap<String, Family>>);

impl Gauges {
    /// Replaces a family; no samples forget it. The error says which name cannot be.
    pub fn set(&self, name: &str, help: &str, gauges: Vec<Gauge>) -> Result<(), String> {
        let labels = gauges.iter().flat_map(|(labels, _)| labels.iter().map(|(label, _)| label.as_str()));
        if let Some(odd) = std::iter::once(name).chain(labels).find(|name| !is_name(name)) {
            return Err(format!("{odd:?} cannot name a gauge or a label: use letters, digits and underscores"));
        }
        let mut families = lock(&self.0);
        if gauges.is_empty() {
            families.remove(name);
        } else {
            families.insert(name.to_owned(), Family { help: help.to_owned(), gauges });
        }
        Ok(())
    }

    /// Every sample, or, of those with a label `model`, only those of one model.
    pub fn samples(&self, only: Option<&str>, list: &mut impl Samples) {
        let families = lock(&self.0);
        let all = families.iter().flat_map(|(name, family)| family.gauges.iter().map(move |gauge| (name, gauge)));
        let wanted = all.filter(|(_, (labels, _))| {
            only.is_none_or(|model| labels.iter().all(|(label, value)| label != "model" || value == model))
        });
        for (name, (labels, value)) in wanted {
            let labels: Vec<_> = labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escape(value))).collect();
            list.add(name, "", format_args!("{}", labels.join(",")), *value);
        }
    }

    /// The help text of a family.
    pub fn help(&self, name: &str) -> Option<String> {
        lock(&self.0).get(name).map(|family| family.help.clone())
    }
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(plain) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}
