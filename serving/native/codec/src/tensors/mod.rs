//! The elements of tensors: columns of rows, whole tensors, slices of them, and the memory that they reuse.

pub mod column;
pub mod lender;
pub mod number;
pub mod page;
pub mod pool;
pub mod slice;
pub mod tensor;

pub use column::{Column, Strings, Words};
pub use lender::Lender;
pub use number::{Number, push_number};
pub use page::{Page, Room};
pub use pool::{ColumnPool, Lease};
pub use slice::Slice;
pub use tensor::Tensor;
