//! What a decoder appended for one request: how many rows, and whether they came without their axis of one element.
//! Decoders of every protocol make it; the queue enters it into a batch, so that the answer has the request's rank.

use crate::signature::TensorSpec;

/// Rows of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    /// Their number.
    pub rows: usize,
    /// Whether every input that may come flat did, and there is one: outputs of one element per row are flat then.
    pub flat: bool,
}

/// Collects over a request's inputs whether all that may come flat did.
#[derive(Debug, Default)]
pub struct Flatness(Option<bool>);

impl Flatness {
    /// Notes how one input came.
    pub fn note(&mut self, spec: &TensorSpec, flat: bool) {
        if spec.may_be_flat() {
            self.0 = Some(flat && self.0 != Some(false));
        }
    }

    /// Whether all did, and there was one.
    pub fn is_flat(&self) -> bool {
        self.0 == Some(true)
    }
}
