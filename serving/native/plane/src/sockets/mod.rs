//! Sockets as the system gives them, and what is asked of them beside reading and writing: whether the peer has gone for good,
//! and whether one that reads slowly has taken something. TLS and connections stand on them.

pub mod ends;
pub mod slow_takers;
