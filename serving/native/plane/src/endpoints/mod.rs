//! Where requests come in. A protocol is a folder here: it decodes requests into payloads and encodes replies.

pub mod compression;
pub mod embedded;
pub mod examples;
pub mod grpc;
pub mod headers;
pub mod reply;
pub mod rest;
