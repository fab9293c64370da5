//! What Python calls: the data plane with its settings and changes, a fleet's router, and work at low priority.

pub(crate) mod changes;
pub(crate) mod data_plane;
pub(crate) mod exit_guard;
pub(crate) mod low_priority;
pub(crate) mod predict;
pub(crate) mod router;
pub(crate) mod settings;
