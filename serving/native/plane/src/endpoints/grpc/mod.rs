//! The gRPC endpoint: HTTP/2 connections, and the methods of TensorFlow Serving, of the Open Inference Protocol, and of gRPC's
//! health service and reflection.

pub mod connection;
pub mod conversation;
pub mod encoding;
pub mod fan_in;
pub mod head;
pub mod health;
pub mod in_order;
pub mod infer_methods;
pub mod infer_stream;
pub mod message;
pub mod methods;
pub mod multi_inference;
pub mod open_inference;
pub mod partial_calls;
pub mod prediction;
pub mod reflection;
pub mod reply;
pub mod service;
pub mod unix_authority;
