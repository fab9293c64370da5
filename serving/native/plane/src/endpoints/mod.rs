//! The endpoints. A protocol decodes requests into payloads and encodes replies; nothing outside this folder knows it.

pub mod body;
pub mod compression;
pub mod embedded;
pub mod examples;
pub mod grpc;
pub mod headers;
pub mod reply;
pub mod rest;
