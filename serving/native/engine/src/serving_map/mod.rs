//! Which versions serve which requests: one table that is swapped whole.

pub mod by_name;
pub mod change;
pub mod draft;
pub mod map;
pub mod split;
pub mod states;
pub mod version;
