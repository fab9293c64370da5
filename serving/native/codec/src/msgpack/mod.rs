//! MessagePack (<https://github.com/msgpack/msgpack/blob/master/spec.md>) as the JSON that says the same, and back, so that
//! whatever comes in either has one meaning. Neither builds a tree or recurses.

pub mod from_json;
pub mod to_json;

pub use from_json::from_json;
pub use to_json::to_json;

/// What bytes of the type `bin` are in JSON, which has no such type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `{"b64": "..."}`, as in the values of tensors.
    Object,
    /// A string in base64, as schemas have it.
    Text,
}
