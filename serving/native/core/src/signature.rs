//! What a version takes and gives: named tensors with dtype and shape, the first axis being the batch.
//! Comes from Python with each published version; decoders, the batch queue, encoders and the metadata answer read it.

use std::sync::Arc;

use crate::dtype::DType;
use crate::status::Status;

/// Name, dtype and shape of one input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name in requests and answers.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Dimensions; -1 is any size, the first axis is the batch.
    pub shape: Vec<i64>,
}

impl TensorSpec {
    /// Dimensions of one row.
    pub fn inner(&self) -> &[i64] {
        self.shape.get(1..).unwrap_or(&[])
    }

    /// Dimensions of one row when none is unknown.
    pub fn fixed_inner(&self) -> Option<Vec<usize>> {
        self.inner().iter().map(|dim| usize::try_from(*dim).ok()).collect()
    }

    /// Whether a row of these dimensions fits.
    pub fn admits(&self, inner: &[usize]) -> bool {
        let wanted = self.inner();
        wanted.len() == inner.len() && wanted.iter().zip(inner).all(|(want, got)| *want < 0 || *want as usize == *got)
    }

    /// Whether `[n]` is taken for `[n,1]`: TensorFlow Serving holds no request's shape against the signature, and the
    /// clients of models with one element per row leave the second axis out.
    pub fn may_be_flat(&self) -> bool {
        self.shape == [-1, 1]
    }

    fn check(&self, role: &str) -> Result<(), String> {
        if self.name.is_empty() {
            return Err(format!("an {role} has an empty name: give it one"));
        }
        match self.shape.first() {
            Some(-1) => {}
            first => {
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
}

impl Signature {
    /// Checks the specs; the text of the error says which one is wrong.
    pub fn new(
        name: String,
        method_name: String,
        inputs: Vec<TensorSpec>,
        outputs: Vec<TensorSpec>,
    ) -> Result<Signature, String> {
        if name.is_empty() {
            return Err("a signature has an empty name: use 'serving_default'".to_owned());
        }
        for (role, specs) in [("input", &inputs), ("output", &outputs)] {
            if specs.is_empty() {
                return Err(format!("signature '{name}' has no {role}: name at least one"));
            }
            for (at, spec) in specs.iter().enumerate() {
                spec.check(role).map_err(|why| format!("signature '{name}': {why}"))?;
                if specs[..at].iter().any(|other| other.name == spec.name) {
                    return Err(format!("signature '{name}' has two {role}s named '{}'", spec.name));
                }
            }
        }
        let fixed = inputs.iter().all(|spec| spec.fixed_inner().is_some());
        Ok(Signature { name, method_name, inputs: inputs.into(), outputs: outputs.into(), fixed })
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
