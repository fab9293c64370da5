//! One input or output of a signature: name, dtype, shape, and which tensors fit it.

use crate::dtype::DType;

/// What the first axis of a signature's tensors is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstAxis {
    /// The batch, says whoever made the model: an answer with another number of rows is the model's fault.
    #[default]
    Batch,
    /// The batch, as far as shapes tell: requests run together until an answer shows that it is none.
    Assumed,
    /// No batch: each request runs alone, with exactly the shapes that it has.
    Free,
}

impl FirstAxis {
    /// All, with their names.
    pub const NAMES: [(FirstAxis, &'static str); 3] =
        [(FirstAxis::Batch, "batch"), (FirstAxis::Assumed, "assumed"), (FirstAxis::Free, "free")];

    /// Its name.
    pub fn name(self) -> &'static str {
        FirstAxis::NAMES[self as usize].1
    }

    /// The one with this name.
    pub fn from_name(name: &str) -> Option<FirstAxis> {
        FirstAxis::NAMES.iter().find(|(_, known)| *known == name).map(|(axis, _)| *axis)
    }
}

/// Name, dtype and shape of one input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name in requests and answers.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Dimensions; -1 is any size. Empty where the rank is unknown.
    pub shape: Vec<i64>,
    /// Whether a tensor of any rank fits.
    pub unknown_rank: bool,
    /// Whether a whole tensor counts as one row: its signature says so.
    pub(crate) free: bool,
}

impl TensorSpec {
    /// A tensor of these dimensions.
    pub fn new(name: impl Into<String>, dtype: DType, shape: impl Into<Vec<i64>>) -> TensorSpec {
        TensorSpec { name: name.into(), dtype, shape: shape.into(), unknown_rank: false, free: false }
    }

    /// A tensor of any rank.
    pub fn of_any_rank(name: impl Into<String>, dtype: DType) -> TensorSpec {
        TensorSpec { unknown_rank: true, ..TensorSpec::new(name, dtype, []) }
    }

    /// Whether a whole tensor counts as one row.
    pub fn is_free(&self) -> bool {
        self.free
    }

    /// Dimensions of one row.
    pub fn inner(&self) -> &[i64] {
        if self.free { &self.shape } else { self.shape.get(1..).unwrap_or(&[]) }
    }

    /// Dimensions of one row when none is unknown.
    pub fn fixed_inner(&self) -> Option<Vec<usize>> {
        if self.admits_any_rank() {
            return None;
        }
        self.inner().iter().map(|dim| usize::try_from(*dim).ok()).collect()
    }

    /// Whether rows may have any number of dimensions.
    pub fn admits_any_rank(&self) -> bool {
        self.free && self.unknown_rank
    }

    /// Whether a row of these dimensions fits.
    pub fn admits(&self, inner: &[usize]) -> bool {
        let wanted = self.inner();
        self.admits_any_rank()
            || (wanted.len() == inner.len()
                && wanted.iter().zip(inner).all(|(want, got)| *want < 0 || *want as usize == *got))
    }

    /// Whether tensors of this rank may come.
    pub fn may_have_rank(&self, rank: usize) -> bool {
        self.unknown_rank || self.shape.len() == rank
    }

    /// Whether `[n]` is taken for `[n,1]`: TensorFlow Serving holds no request's shape against the signature, and the
    /// clients of models with one element per row leave the second axis out.
    pub fn may_be_flat(&self) -> bool {
        !self.free && self.shape == [-1, 1]
    }

    /// The dimensions as text; what may have any rank but needs rows is `[-1]`.
    pub fn show(&self) -> String {
        match self.unknown_rank {
            true if self.free => "[?]".to_owned(),
            true => "[-1]".to_owned(),
            false => show_shape(&self.shape),
        }
    }

    /// The one number of rows that the model was exported for, where that is more than one.
    pub(crate) fn exact_rows(&self) -> Option<usize> {
        let first = self.shape.first().filter(|_| !self.free)?;
        usize::try_from(*first).ok().filter(|rows| *rows > 1)
    }

    pub(crate) fn check(&self, role: &str, axis: FirstAxis) -> Result<(), String> {
        if self.name.is_empty() {
            return Err(format!("an {role} has an empty name: give it one"));
        }
        match (axis, self.shape.first()) {
            (FirstAxis::Free, _) | (FirstAxis::Assumed, Some(_)) => {}
            (FirstAxis::Assumed, None) if self.unknown_rank => {}
            (FirstAxis::Batch, Some(-1)) if !self.unknown_rank => {}
            (_, first) => {
                let found = first.map_or_else(|| "no axis".to_owned(), ToString::to_string);
                return Err(format!(
                    "{role} '{}' has shape {:?}: the first axis is the batch and must be -1, not {found}",
                    self.name, self.shape
                ));
            }
        }
        match self.shape.iter().find(|dim| **dim < -1) {
            Some(dim) => Err(format!("{role} '{}' has dimension {dim}: use -1 for any size", self.name)),
            None => Ok(()),
        }
    }
}

/// Dimensions as text: `[-1,4]`.
pub fn show_shape<T: ToString>(shape: &[T]) -> String {
    format!("[{}]", shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}
