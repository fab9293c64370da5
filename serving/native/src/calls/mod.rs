//! What Python calls: the data plane with its settings and changes, a fleet's router, work at low priority, and what is asked of the
//! process.

pub(crate) mod changes;
pub(crate) mod data_plane;
pub(crate) mod exit_guard;
pub(crate) mod low_priority;
pub(crate) mod predict;
pub(crate) mod router;
pub(crate) mod settings;
pub(crate) mod system;
