//! How a signature answers Classify or Regress: which of its outputs are classes, scores or the regression, and whether
//! it takes serialized examples.

use crate::dtype::{DType, tensorflow_constant};
use crate::signatures::{FirstAxis, Signature, TensorSpec, show_shape};
use crate::status::Status;

/// TensorFlow Serving's name for the one input of serialized examples.
const INPUTS: &str = "inputs";
const CLASSES: &str = "classes";
const SCORES: &str = "scores";
const OUTPUTS: &str = "outputs";

/// A method that answers examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InferenceMethod {
    /// Classes and their scores.
    Classify,
    /// One number.
    Regress,
}

impl InferenceMethod {
    /// `method_name` of a signature that was made for it.
    pub fn name(self) -> &'static str {
        match self {
            InferenceMethod::Classify => "tensorflow/serving/classify",
            InferenceMethod::Regress => "tensorflow/serving/regress",
        }
    }

    /// The method with this `method_name`.
    pub fn from_name(name: &str) -> Option<InferenceMethod> {
        [InferenceMethod::Classify, InferenceMethod::Regress].into_iter().find(|method| method.name() == name)
    }

    fn noun(self) -> &'static str {
        match self {
            InferenceMethod::Classify => "classification",
            InferenceMethod::Regress => "regression",
        }
    }
}

/// Positions of the outputs that make the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InferenceOutputs {
    /// At least one of both, each of shape `[-1,k]`.
    Classify {
        /// Strings.
        classes: Option<usize>,
        /// Floats.
        scores: Option<usize>,
    },
    /// A float output of shape `[-1]` or `[-1,1]`.
    Regress(usize),
}

impl InferenceOutputs {
    /// The outputs of a signature that answer a method, or what TensorFlow Serving says of a signature without.
    ///
    /// A signature that was made for the method must have them under TensorFlow Serving's names, or only one that can
    /// be meant. Any other, such as a `predict` signature, may serve where its outputs leave no doubt.
    /// Of shapes that do not fit it says what they are for so many `examples`.
    pub fn of(method: InferenceMethod, signature: &Signature, examples: usize) -> Result<InferenceOutputs, Status> {
        let made_for = InferenceMethod::from_name(&signature.method_name);
        if made_for.is_some_and(|other| other != method) {
            return Err(wrong_method(method, signature));
        }
        if signature.first_axis == FirstAxis::Free {
            return Err(not_by_row(method, signature));
        }
        let strict = made_for.is_some();
        let found = match method {
            InferenceMethod::Classify => classify(signature, strict, examples)?,
            InferenceMethod::Regress => regress(signature, strict, examples)?,
        };
        found.ok_or_else(|| wrong_method(method, signature))
    }
}

/// Whether each row is a whole serialized example: the one string input that TensorFlow's own models parse themselves.
pub fn takes_serialized(signature: &Signature) -> bool {
    match &*signature.inputs {
        [only] if only.dtype == DType::String && !only.is_free() && only.may_have_rank(1) => {
            only.name == INPUTS || InferenceMethod::from_name(&signature.method_name).is_some()
        }
        _ => false,
    }
}

fn wrong_method(method: InferenceMethod, signature: &Signature) -> Status {
    let (noun, wanted, found) = (method.noun(), method.name(), &signature.method_name);
    Status::invalid(format!("Expected {noun} signature method_name to be {wanted}. Was: {found}"))
}

#[cold]
fn not_by_row(method: InferenceMethod, signature: &Signature) -> Status {
    let (noun, name) = (method.noun(), &signature.name);
    Status::invalid(format!(
        "Expected {noun} signature with a row per example: the first axis of signature '{name}' is no batch. Its \
         outputs are {}",
        show_outputs(signature)
    ))
}

fn is_float(spec: &TensorSpec) -> bool {
    spec.dtype.is_float()
}

/// The position of the output with this name, else of the only one that fits.
fn pick(signature: &Signature, name: &str, fits: impl Fn(&TensorSpec) -> bool) -> Option<usize> {
    let outputs = &signature.outputs;
    let mut fitting = (0..outputs.len()).filter(|at| fits(&outputs[*at]));
    match outputs.iter().position(|spec| spec.name == name && fits(spec)) {
        Some(named) => Some(named),
        None => fitting.next().filter(|_| fitting.next().is_none()),
    }
}

fn classify(signature: &Signature, strict: bool, examples: usize) -> Result<Option<InferenceOutputs>, Status> {
    if strict {
        for spec in signature.outputs.iter().filter(|spec| spec.name == CLASSES || spec.name == SCORES) {
            check_class_output(spec, examples)?;
        }
    }
    let classes = pick(signature, CLASSES, |spec| spec.dtype == DType::String && spec.may_have_rank(2));
    let scores = pick(signature, SCORES, |spec| is_float(spec) && spec.may_have_rank(2));
    if classes.is_some() || scores.is_some() {
        return Ok(Some(InferenceOutputs::Classify { classes, scores }));
    }
    if strict {
        return Err(Status::invalid(format!(
            "Expected classification signature outputs to contain at least one of \"{CLASSES}\" or \"{SCORES}\". \
             Signature was: {}",
            show_outputs(signature)
        )));
    }
    Ok(None)
}

fn check_class_output(spec: &TensorSpec, examples: usize) -> Result<(), Status> {
    if !spec.may_have_rank(2) {
        let got = show_answer(spec, examples);
        return Err(Status::invalid(format!("Expected Tensor shape: [batch_size num_classes] but got {got}")));
    }
    let (fits, wanted) = match spec.name.as_str() {
        CLASSES => (spec.dtype == DType::String, "DT_STRING"),
        _ => (is_float(spec), "DT_FLOAT"),
    };
    if fits {
        return Ok(());
    }
    let (name, got) = (&spec.name, tensorflow_constant(spec.dtype));
    Err(Status::invalid(format!("Expected {name} Tensor of {wanted}. Got: {got}")))
}

fn regress(signature: &Signature, strict: bool, examples: usize) -> Result<Option<InferenceOutputs>, Status> {
    let one_number = |spec: &TensorSpec| match spec.inner() {
        [] => true,
        [width] => *width == 1 || *width < 0,
        _ => false,
    };
    if let Some(at) = pick(signature, OUTPUTS, |spec| is_float(spec) && one_number(spec)) {
        return Ok(Some(InferenceOutputs::Regress(at)));
    }
    if !strict {
        return Ok(None);
    }
    let named = signature.outputs.iter().find(|spec| spec.name == OUTPUTS || signature.outputs.len() == 1);
    Err(Status::invalid(match named {
        None => format!("No regression outputs found in SignatureDef: {}", show_outputs(signature)),
        Some(spec) if !one_number(spec) => format!(
            "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got {}",
            show_answer(spec, examples)
        ),
        Some(spec) => format!("Expected output Tensor of DT_FLOAT.  Got: {}", tensorflow_constant(spec.dtype)),
    }))
}

/// The shape of an output for so many examples, as far as the signature tells.
fn show_answer(spec: &TensorSpec, examples: usize) -> String {
    let mut shape = spec.shape.clone();
    if let Some(first) = shape.first_mut().filter(|first| **first < 0) {
        *first = i64::try_from(examples).unwrap_or(i64::MAX);
    }
    show_shape(&shape)
}

fn show_outputs(signature: &Signature) -> String {
    let show = |spec: &TensorSpec| format!("{} {}{}", spec.name, spec.dtype.name(), spec.show());
    signature.outputs.iter().map(show).collect::<Vec<_>>().join(", ")
}
