//! Where a decoder writes one request's inputs: the columns of an open batch, and room for shapes.

use crate::status::Status;
use crate::tensors::pool::Lease;

/// Says whether memory may be used, before it is filled.
pub trait Room {
    /// Takes bytes, or says why there are none.
    fn take(&mut self, bytes: usize) -> Result<(), Status>;
}

/// Room without a bound.
impl Room for () {
    fn take(&mut self, _: usize) -> Result<(), Status> {
        Ok(())
    }
}

/// Columns of the open batch and room for inner shapes, for a decoder to fill.
pub struct Page<'a> {
    /// One per input.
    pub columns: &'a mut [Lease],
    /// To be filled when the signature has unknown inner dimensions, or the request is unbatched.
    pub shapes: &'a mut Vec<Vec<usize>>,
    /// Where memory comes from that a short message makes much of.
    pub room: &'a mut dyn Room,
}
