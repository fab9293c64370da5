//! The serving map: which versions serve which requests. It is never changed, only replaced as a whole.

pub mod by_name;
pub mod change;
pub mod draft;
pub mod map;
pub mod split;
pub mod states;
pub mod version;

pub use change::{Change, Publish, Wiring};
pub use map::{Model, ServingMap};
pub use split::{KeyValue, Requester};
pub use states::ModelStates;
pub use version::{HeldQueue, Remains, Version};
