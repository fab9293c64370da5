//! What the document tells of.

use crate::model_spec::DEFAULT_SIGNATURE;
use crate::signatures::Signature;

/// A model as the document tells of it.
#[derive(Debug)]
pub struct DescribedModel<'a> {
    /// Its name.
    pub name: &'a str,
    /// The version that answers those who name none, where one does.
    pub default: Option<i64>,
    /// Those that answer.
    pub versions: Vec<DescribedVersion<'a>>,
}

/// A version as the document tells of it.
#[derive(Debug)]
pub struct DescribedVersion<'a> {
    /// Its number.
    pub number: i64,
    /// The labels that name it.
    pub labels: Vec<&'a str>,
    /// How it can be called.
    pub signatures: Vec<&'a Signature>,
}

impl DescribedVersion<'_> {
    /// The signature that plain objects are for: the default, or the only one.
    pub(super) fn plain(&self) -> Option<&Signature> {
        let default = self.signatures.iter().find(|signature| signature.name == DEFAULT_SIGNATURE);
        default.or(self.signatures.first().filter(|_| self.signatures.len() == 1)).copied()
    }
}
