//! Connections while they live: what is noted of each, how many there may be, and which are given up.

pub mod chunks;
pub mod frames;
pub mod full_frames;
pub mod held;
pub mod io_time;
pub mod lifeline;
pub mod pace;
pub mod peer;
pub mod shared_answers;
pub mod socket;
pub mod tended;
