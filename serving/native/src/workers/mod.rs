//! Worker processes as Python and executors see them: the line to one, and those of a version that are idle.

pub(crate) mod idle;
pub(crate) mod line;
