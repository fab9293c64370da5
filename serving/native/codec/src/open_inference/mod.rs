//! The Open Inference Protocol, version 2, as KServe's documents define it and Triton's clients speak it: `ModelInfer` as
//! protocol buffers and as JSON with binary tensors, and what servers say of themselves and their models.

pub mod answer;
pub mod classification;
pub mod config;
pub mod contents;
pub mod datatype;
pub mod extensions;
pub mod generate;
pub mod health;
pub mod index;
pub mod input;
pub mod json_answer;
pub mod json_request;
pub mod json_values;
pub mod message;
pub mod metadata;
pub mod raw;
pub mod request;
pub mod shared_memory;
pub mod statistics;
pub mod stream_answer;
pub mod whole_body;
