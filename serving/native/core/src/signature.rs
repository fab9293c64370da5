//! What a version takes and gives: named tensors with dtype and shape, and whether their first axis is the batch.
//! Comes from Python with each published version; decoders, the batch queue, encoders and the metadata answer read it.

use std::sync::Arc;

use crate::batch::Output;
use crate::dtype::DType;
use crate::status::Status;

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
    free: bool,
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
    fn exact_rows(&self) -> Option<usize> {
        let first = self.shape.first().filter(|_| !self.free)?;
        usize::try_from(*first).ok().filter(|rows| *rows > 1)
    }

    fn check(&self, role: &str, axis: FirstAxis) -> Result<(), String> {
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

/// One way to call a version.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Name, such as `serving_default`.
    pub name: String,
    /// TensorFlow Serving's method name, such as `tensorflow/serving/predict`.
    pub method_name: String,
    /// Inputs, in the order given.
    pub inputs: Arc<[TensorSpec]>,
    /// Outputs, in the order given.
    pub outputs: Arc<[TensorSpec]>,
    /// Whether every inner dimension of every input is known.
    pub fixed: bool,
    /// What the first axis of all its tensors is.
    pub first_axis: FirstAxis,
    /// Per input, what stands in where a request leaves it out.
    pub defaults: Arc<[Option<Output>]>,
    /// A request of exactly so many rows runs alone: the model was exported for them and may look at all of them.
    pub exact_rows: Option<usize>,
}

impl Signature {
    /// A signature whose first axes are the batch.
    pub fn new(
        name: String,
        method_name: String,
        inputs: Vec<TensorSpec>,
        outputs: Vec<TensorSpec>,
    ) -> Result<Signature, String> {
        Signature::with_axis(name, method_name, inputs, outputs, FirstAxis::Batch)
    }

    /// Checks the specs; the text of the error says which one is wrong.
    pub fn with_axis(
        name: String,
        method_name: String,
        mut inputs: Vec<TensorSpec>,
        mut outputs: Vec<TensorSpec>,
        first_axis: FirstAxis,
    ) -> Result<Signature, String> {
        if name.is_empty() {
            return Err("a signature has an empty name: use 'serving_default'".to_owned());
        }
        for (role, specs) in [("input", &inputs), ("output", &outputs)] {
            if specs.is_empty() && !(role == "input" && first_axis == FirstAxis::Free) {
                return Err(format!("signature '{name}' has no {role}: name at least one"));
            }
            for (at, spec) in specs.iter().enumerate() {
                spec.check(role, first_axis).map_err(|why| format!("signature '{name}': {why}"))?;
                if specs[..at].iter().any(|other| other.name == spec.name) {
                    return Err(format!("signature '{name}' has two {role}s named '{}'", spec.name));
                }
            }
        }
        inputs.iter_mut().chain(&mut outputs).for_each(|spec| spec.free = first_axis == FirstAxis::Free);
        let fixed = inputs.iter().all(|spec| spec.fixed_inner().is_some());
        let exact_rows = inputs.first().and_then(TensorSpec::exact_rows);
        let defaults = vec![None; inputs.len()].into();
        let (inputs, outputs) = (inputs.into(), outputs.into());
        Ok(Signature { name, method_name, inputs, outputs, fixed, first_axis, defaults, exact_rows })
    }

    /// The same with values for inputs that requests leave out.
    pub fn with_defaults(self, defaults: Vec<Option<Output>>) -> Signature {
        Signature { defaults: defaults.into(), ..self }
    }

    /// Whether a request may leave inputs out.
    pub fn has_defaults(&self) -> bool {
        self.defaults.iter().any(Option::is_some)
    }

    /// Whether a request may bring so many inputs.
    pub fn takes_inputs(&self, count: usize) -> bool {
        count == self.inputs.len() || (count < self.inputs.len() && self.has_defaults())
    }

    /// What TensorFlow Serving says of a request without an input for which nothing stands in.
    #[cold]
    pub fn left_out(&self, mut sent: Vec<String>) -> Status {
        let mut missing = self.inputs.iter().zip(&*self.defaults);
        let missing = missing.find(|(spec, default)| default.is_none() && !sent.contains(&spec.name));
        let Some((TensorSpec { name: alias, .. }, _)) = missing.filter(|_| self.has_defaults()) else {
            return self.wrong_names(sent);
        };
        sent.sort();
        let with_default = self.inputs.iter().zip(&*self.defaults).filter(|(_, default)| default.is_some());
        let mut with_default: Vec<&str> = with_default.map(|(spec, _)| spec.name.as_str()).collect();
        with_default.sort_unstable();
        Status::invalid(format!(
            "Signature input alias: {alias}(feed name: {alias}) not found in request and no default value provided. \
             Inputs expected to be in the request {{{}}}, or default input alias set: {}",
            sent.join(","),
            with_default.join(",")
        ))
    }

    /// What TensorFlow Serving says of inputs whose names are not the signature's.
    pub fn wrong_names(&self, mut sent: Vec<String>) -> Status {
        sent.sort();
        let mut wanted: Vec<String> = self.inputs.iter().map(|spec| spec.name.clone()).collect();
        wanted.sort();
        let without = |all: &[String], others: &[String]| {
            all.iter().filter(|name| !others.contains(name)).cloned().collect::<Vec<_>>().join(",")
        };
        Status::invalid(format!(
            "input size does not match signature: {}!={} len({{{}}}) != len({{{}}}). Sent extra: {{{}}}. Missing but \
             required: {{{}}}.",
            sent.len(),
            wanted.len(),
            sent.join(","),
            wanted.join(","),
            without(&sent, &wanted),
            without(&wanted, &sent)
        ))
    }

    /// Position of the input with this name, looked for from `hint` on, where the last client had it.
    pub fn input_index(&self, name: &[u8], hint: usize) -> Option<usize> {
        let count = self.inputs.len();
        (0..count)
            .map(|step| if hint + step < count { hint + step } else { hint + step - count })
            .find(|at| self.inputs[*at].name.as_bytes() == name)
    }
}
