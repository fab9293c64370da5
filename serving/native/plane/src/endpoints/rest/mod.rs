//! The REST endpoint: HTTP/1.1 connections and the paths of TensorFlow Serving, of the Open
//! Inference Protocol, and of plain objects.

pub mod answer_body;
pub mod body;
pub mod connection;
pub mod cors;
pub mod events;
pub mod framing;
pub mod generate;
pub mod infer_response;
pub mod inference;
pub mod media_type;
pub mod open_inference;
pub mod path;
pub mod plain_response;
pub mod prediction;
pub mod routes;
pub mod service;
