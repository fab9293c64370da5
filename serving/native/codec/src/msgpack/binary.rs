//! Bytes, which MessagePack has a type for and JSON has not.

/// What bytes of the type `bin` are in JSON, which has no such type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `{"b64": "..."}`, as in the values of tensors.
    Object,
    /// A string in base64, as schemas have it.
    Text,
}
