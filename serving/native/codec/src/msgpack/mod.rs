//! MessagePack (<https://github.com/msgpack/msgpack/blob/master/spec.md>) as the JSON that says the same, and back, so that
//! whatever comes in either has one meaning. Neither builds a tree or recurses.

pub mod binary;
pub mod from_json;
pub mod to_json;

pub use binary::Binary;
pub use from_json::from_json;
pub use to_json::to_json;
