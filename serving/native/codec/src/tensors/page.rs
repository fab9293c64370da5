//! Where a decoder writes one request's inputs: the columns of an open batch, and room for shapes.

use crate::tensors::pool::Lease;

/// Columns of the open batch and room for inner shapes, for a decoder to fill.
pub struct Page<'a> {
    /// One per input.
    pub columns: &'a mut [Lease],
    /// To be filled when the signature has unknown inner dimensions, or the request is unbatched.
    pub shapes: &'a mut Vec<Vec<usize>>,
}
