//! Forwarding over gRPC: which model a call names, and the calls themselves.

pub mod answer;
pub mod conversation;
pub mod names;
pub mod outgoing;
pub mod service;
