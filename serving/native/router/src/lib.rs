//! Tidegate's router: takes requests as an engine does, and forwards each to a node of the fleet that has its model.
//! Python says which nodes there are and which models they have; what happens per request is here.

#![forbid(unsafe_code)]

pub mod copy;
pub mod forward;
pub mod grpc;
pub mod headers;
pub mod hedging;
pub mod lane;
pub mod links;
pub mod node;
pub mod page;
pub mod pause;
pub mod rest;
pub mod router;
pub mod routes;
pub mod settings;
pub mod time_left;
pub mod waiting;
