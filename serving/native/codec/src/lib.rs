//! Bytes to tensors and back: element types, tensors, signatures, and the protocol buffers and JSON that carry them.
//! Nothing here opens a socket or starts a thread, so that every decoder can be tested and fuzzed alone.

#![forbid(unsafe_code)]

pub mod dtype;
pub mod inference;
pub mod json;
pub mod model_metadata;
pub mod model_spec;
pub mod msgpack;
pub mod open_inference;
pub mod openapi;
pub mod protobuf;
pub mod signatures;
pub mod status;
pub mod tensors;
pub mod version_state;
