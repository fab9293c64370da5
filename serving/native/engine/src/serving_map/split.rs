//! A traffic split: which version answers a request that names none, by shares of requests or of a key's values.
//! The same key always draws the same version.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};

use crate::request_id::{self, RequestId, Share};
use crate::serving_map::version::Version;

/// What a split knows of a request.
#[derive(Clone, Copy)]
pub struct Requester<'a> {
    /// The request's identity.
    pub id: &'a RequestId,
    /// Where the key's value is.
    pub key: KeyValue<'a>,
    /// The sequence that the request belongs to as this version reads it, empty for none: read only for a split with a
    /// version of sequences, which a sequence stays with.
    pub sequence: &'a dyn Fn(&Version) -> Vec<u8>,
}

/// Where the value of a split's key is.
#[derive(Clone, Copy)]
pub enum KeyValue<'a> {
    /// In the request's headers or metadata.
    In(&'a HeaderMap),
    /// Given by an embedding program.
    Is(Option<&'a str>),
}

/// Versions by shares of what is drawn. What no share covers, or a version that is not there, is the default's.
#[derive(Clone, Debug)]
pub struct Split {
    key: Option<HeaderName>,
    salt: u64,
    shares: BTreeMap<i64, f64>,
    parts: Vec<(Share, Option<Arc<Version>>)>,
    /// The first of its versions that has a signature of sequences.
    of_sequences: Option<Arc<Version>>,
}

impl Split {
    /// Checks the shares and the key; the text of the error says what is wrong with them.
    pub fn new(model: &str, shares: BTreeMap<i64, f64>, key: &str) -> Result<Split, String> {
        let wrong = |why: String| format!("the split of model '{model}' {why}");
        if let Some((version, share)) = shares.iter().find(|(_, share)| !(0.0..=1.0).contains(*share)) {
            return Err(wrong(format!("gives version {version} a share of {share}: it must be between 0 and 1")));
        }
        let sum: f64 = shares.values().sum();
        if (sum - 1.0).abs() > 1e-6 {
            return Err(wrong(format!("has shares that sum to {sum}: they must sum to 1")));
        }
        let key =
            match key {
                "" => None,
                name => Some(HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
                    wrong(format!("has key '{name}': it must be the name of a header, such as x-user-id"))
                })?),
            };
        Ok(Split { key, salt: request_id::hash(model.as_bytes()), shares, parts: Vec::new(), of_sequences: None })
    }

    /// The same split with the versions that are there.
    pub fn settled(mut self, versions: &BTreeMap<i64, Arc<Version>>) -> Split {
        let mut end = 0.0;
        let count = self.shares.len();
        let parts = self.shares.iter().enumerate().map(|(at, (number, share))| {
            end = if at + 1 == count { 1.0 } else { f64::min(end + share, 1.0) };
            (Share::new(end).unwrap_or_default(), versions.get(number).cloned())
        });
        self.parts = parts.collect();
        let mut there = self.parts.iter().filter_map(|(_, version)| version.as_ref());
        self.of_sequences = there.find(|version| version.has_sequences()).cloned();
        self
    }

    /// The version that this request draws; none where its part waits for one.
    pub fn draw(&self, requester: &Requester<'_>) -> Option<&Arc<Version>> {
        let drawn = match self.value(requester) {
            Some(value) => request_id::hash(value),
            None => self.sequence(requester).map_or_else(|| requester.id.hash(), |own| request_id::hash(&own)),
        };
        let drawn = request_id::mix(drawn ^ self.salt);
        let (_, version) = self.parts.iter().find(|(end, _)| end.covers(drawn))?;
        version.as_ref()
    }

    fn sequence(&self, requester: &Requester<'_>) -> Option<Vec<u8>> {
        let sequence = (requester.sequence)(self.of_sequences.as_deref()?);
        (!sequence.is_empty()).then_some(sequence)
    }

    fn value<'a>(&self, requester: &Requester<'a>) -> Option<&'a [u8]> {
        let key = self.key.as_ref()?;
        match requester.key {
            KeyValue::In(headers) => headers.get(key).map(http::HeaderValue::as_bytes),
            KeyValue::Is(value) => value.map(str::as_bytes),
        }
    }
}
