//! What a plane or a router asks of the process that it is in: priorities of its threads, and that freed memory goes back.

/// Called on threads of the plane or router; but for `share_memory` nothing is on an I/O thread.
pub trait System: Send + Sync {
    /// Called first on threads whose work nobody waits for, but which must keep up.
    fn give_way(&self) {}

    /// Called first on threads that do what would take I/O threads long, for these to go before.
    fn step_back(&self) {}

    /// Gives all freed memory back to the system; called now and then on a thread of its own.
    fn return_memory(&self) {}

    /// The same of what models freed that took large inputs or made large outputs; called on that thread when none did for a
    /// while.
    fn return_model_memory(&self) {}

    /// Lets others have what the calling thread keeps of freed memory; called now and then, on I/O threads too, and so at
    /// once done.
    fn share_memory(&self) {}
}
