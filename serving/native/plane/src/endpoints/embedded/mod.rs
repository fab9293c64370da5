//! The endpoint for programs that the plane lives in: predict without a socket.

pub mod arrays;
pub mod endpoint;
pub mod reply;
