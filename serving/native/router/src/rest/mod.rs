//! Forwarding over REST: requests on their way, and their answers.

pub mod answer;
pub mod outgoing;
pub mod service;
