//! The endpoints: a protocol is routed here, its requests become payloads and its answers replies. Its bytes are in the
//! codec, its names in metrics in the engine.

pub mod body;
pub mod compression;
pub mod embedded;
pub mod examples;
pub mod grpc;
pub mod headers;
pub mod open_inference;
pub mod reply;
pub mod rest;
pub mod stream;
