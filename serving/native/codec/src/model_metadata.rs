//! What `GetModelMetadata` answers about a version, in any protocol.

use crate::signatures::Signature;

/// A model's own description of its signatures, such as a SavedModel has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// A `SignatureDefMap`.
    pub message: Vec<u8>,
    /// The same map's one field as a JSON object.
    pub json: Vec<u8>,
}

/// A version and its signatures.
pub struct ModelMetadata<'a> {
    /// The model's name.
    pub model: &'a str,
    /// The version's number.
    pub version: i64,
    /// Its signatures.
    pub signatures: Vec<&'a Signature>,
    /// How its model itself describes them, where it does.
    pub description: Option<&'a Description>,
}
