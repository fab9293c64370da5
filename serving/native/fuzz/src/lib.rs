//! The decoders as fuzzers drive them: any bytes go in, and no panic, no hang and no memory beyond bounds may come of it.
//! `make fuzz` looks for such bytes; the tests replay those that were kept, which lie in `tests/corpora`.

#![forbid(unsafe_code)]

pub mod bounds;
pub mod endpoints;
pub mod gzip;
pub mod http1;
pub mod http2;
pub mod json;
pub mod model_names;
pub mod msgpack;
pub mod null_model;
pub mod open_inference;
pub mod pages;
pub mod protobuf;
pub mod trace_context;

/// Takes any bytes; panics where a decoder does not do as it must.
pub type Target = fn(&[u8]);

/// All, by the names of their corpora.
pub const DECODERS: [(&str, Target); 9] = [
    ("protobuf", protobuf::run),
    ("json", json::run),
    ("msgpack", msgpack::run),
    ("open_inference", open_inference::run),
    ("gzip", gzip::run),
    ("http1", http1::run),
    ("http2", http2::run),
    ("trace_context", trace_context::run),
    ("model_names", model_names::run),
];

/// The one with this name.
pub fn decoder(name: &str) -> Option<Target> {
    DECODERS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}
