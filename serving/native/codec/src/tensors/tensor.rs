//! A tensor: the elements of a column and their shape.

use crate::tensors::column::Column;

/// Elements and their dimensions.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Its elements.
    pub column: Column,
    /// Its shape; where it holds rows, their number comes first.
    pub shape: Vec<usize>,
}

impl Tensor {
    /// Dimensions of a row; of the whole tensor where it is `unbatched`.
    pub fn inner(&self, unbatched: bool) -> &[usize] {
        if unbatched { &self.shape } else { self.shape.get(1..).unwrap_or(&[]) }
    }
}
