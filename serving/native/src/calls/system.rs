//! What planes and routers ask of the process: of the allocator, and of the system.

use tidegate_plane::system::System;

use crate::allocator::{purge_freed, share_freed, trim_heap};
use crate::calls::low_priority;

/// The process that the extension is loaded into.
pub(crate) struct ThisProcess;

impl System for ThisProcess {
    fn give_way(&self) {
        low_priority::enter_low_priority();
    }

    fn step_back(&self) {
        low_priority::step_back();
    }

    fn return_memory(&self) {
        purge_freed();
    }

    fn return_model_memory(&self) {
        trim_heap();
    }

    fn share_memory(&self) {
        share_freed();
    }
}
