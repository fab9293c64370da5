//! A signature: named inputs and outputs with dtype and shape, and whether their first axis is the batch.

use std::sync::Arc;

use crate::dtype::{DType, tensorflow_type};
use crate::signatures::sequences::{SEQUENCE_END, SEQUENCE_ID, SEQUENCE_START, is_turn};
use crate::signatures::spec::{FirstAxis, TensorSpec};
use crate::status::Status;
use crate::tensors::{Column, Tensor};

/// JSON schemas of what a signature takes and gives as one document each.
#[derive(Clone, Debug)]
pub struct DocumentSchema {
    /// Of the request.
    pub request: String,
    /// Of the answer.
    pub response: String,
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
    pub defaults: Arc<[Option<Tensor>]>,
    /// A request of exactly so many rows runs alone: the model was exported for them and may look at all of them.
    pub exact_rows: Option<usize>,
    /// Which input holds the time of the event in Unix seconds, where one does.
    pub event_time: Option<usize>,
    /// Whether a request is answered with messages, one after the other, instead of once.
    pub streaming: bool,
    /// Whether requests belong to sequences, of which a model keeps something from request to request.
    pub sequences: bool,
    /// Where its only input and its only output are JSON documents, what these look like.
    pub schema: Option<Arc<DocumentSchema>>,
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
        let (event_time, streaming, sequences, schema) = (None, false, false, None);
        Ok(Signature {
            name,
            method_name,
            inputs,
            outputs,
            fixed,
            first_axis,
            defaults,
            exact_rows,
            event_time,
            streaming,
            sequences,
            schema,
        })
    }

    /// The same with values for inputs that requests leave out.
    pub fn with_defaults(self, defaults: Vec<Option<Tensor>>) -> Signature {
        Signature { defaults: defaults.into(), ..self }
    }

    /// Inputs that a request may not leave out.
    pub fn needed_inputs(&self) -> impl Iterator<Item = &TensorSpec> {
        self.inputs.iter().zip(&*self.defaults).filter(|(_, default)| default.is_none()).map(|(spec, _)| spec)
    }

    /// The same with the input of this name, a number per row, as the time of the event; none where it is no such input.
    pub fn with_event_time(self, name: &str) -> Signature {
        let holds =
            |spec: &TensorSpec| spec.name == name && spec.dtype.is_number() && spec.fixed_inner() == Some(vec![]);
        Signature { event_time: self.inputs.iter().position(holds), ..self }
    }

    /// The same, answering with messages. Each request runs alone, so that its first axis must be free.
    pub fn with_streaming(self) -> Result<Signature, String> {
        if self.first_axis != FirstAxis::Free {
            let (name, axis) = (&self.name, self.first_axis.name());
            return Err(format!("signature '{name}' streams and has first axis '{axis}': use 'free'"));
        }
        Ok(Signature { streaming: true, ..self })
    }

    /// The same, of sequences. Each request runs alone, so that its first axis must be free.
    pub fn with_sequences(self) -> Result<Signature, String> {
        let name = &self.name;
        if self.first_axis != FirstAxis::Free {
            let axis = self.first_axis.name();
            return Err(format!("signature '{name}' is of sequences and has first axis '{axis}': use 'free'"));
        }
        for (wanted, dtype) in
            [(SEQUENCE_ID, DType::String), (SEQUENCE_START, DType::Bool), (SEQUENCE_END, DType::Bool)]
        {
            if !self.inputs.iter().any(|spec| spec.name == wanted && spec.dtype == dtype && spec.shape.is_empty()) {
                let dtype = dtype.name();
                return Err(format!("signature '{name}' is of sequences: give it input '{wanted}', a scalar {dtype}"));
            }
        }
        Ok(Signature { sequences: true, ..self })
    }

    /// The sequence's id, which `read` appends to a column of its own as the input of this position; empty where it cannot.
    pub fn read_sequence_id(&self, read: impl FnOnce(usize, &mut Column) -> Result<(), Status>) -> Vec<u8> {
        let named = self.inputs.iter().position(|spec| spec.name == SEQUENCE_ID);
        let found = named.and_then(|index| {
            let mut column = Column::new(self.inputs[index].dtype);
            read(index, &mut column).ok().map(|()| column)
        });
        match &found {
            Some(Column::Strings(ids)) if !ids.is_empty() => ids.get(0).to_vec(),
            _ => Vec::new(),
        }
    }

    /// The inputs that requests bring as tensors.
    pub fn asked_inputs(&self) -> Vec<&TensorSpec> {
        self.inputs.iter().filter(|spec| !(self.sequences && is_turn(&spec.name))).collect()
    }

    /// The same with schemas of its documents, one in each row.
    pub fn with_schema(self, schema: DocumentSchema) -> Result<Signature, String> {
        let is_document =
            |specs: &[TensorSpec]| matches!(specs, [only] if only.dtype == DType::String && only.shape == [-1]);
        if self.first_axis != FirstAxis::Batch || !is_document(&self.inputs) || !is_document(&self.outputs) {
            let name = &self.name;
            return Err(format!(
                "signature '{name}' has schemas: give it one input and one output of dtype string and shape [-1]"
            ));
        }
        Ok(Signature { schema: Some(Arc::new(schema)), ..self })
    }

    /// Whether a request may leave inputs out.
    pub fn has_defaults(&self) -> bool {
        self.defaults.iter().any(Option::is_some)
    }

    /// Whether a request may bring so many inputs.
    pub fn takes_inputs(&self, count: usize) -> bool {
        count == self.inputs.len() || (count < self.inputs.len() && self.has_defaults())
    }

    /// What TensorFlow Serving says of as many inputs as there may be, of which one has a name that the signature lacks,
    /// or without one for which nothing stands in. The name of the tensor behind an input is not known here.
    #[cold]
    pub fn left_out(&self, mut sent: Vec<String>) -> Status {
        sent.sort();
        let missing = self.inputs.iter().zip(&*self.defaults);
        let mut missing = missing.filter(|(spec, default)| default.is_none() && !sent.contains(&spec.name));
        let Some((TensorSpec { name: alias, .. }, _)) = missing.next() else {
            let used: Vec<&str> = sent
                .iter()
                .map(String::as_str)
                .filter(|name| self.inputs.iter().any(|spec| spec.name == *name))
                .collect();
            return Status::invalid(format!(
                "Inputs contains invalid name. Used request inputs: {}, request input: {}",
                used.join(","),
                sent.join(",")
            ));
        };
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

    /// TensorFlow's words for an input of another type, by its number among all of them, and what to send.
    #[cold]
    pub fn wrong_dtype(&self, index: usize, sent: &str) -> Status {
        let spec = &self.inputs[index];
        let arg = self.inputs.iter().filter(|other| other.name < spec.name).count();
        let (name, want) = (&spec.name, tensorflow_type(spec.dtype));
        Status::invalid(format!(
            "Expects arg[{arg}] to be {want} but {sent} is provided: send input '{name}' as {want}"
        ))
    }

    /// What TensorFlow Serving says of more inputs than the signature has, or fewer.
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

    /// Position of the input with this name, looked for from `hint` on, where the last client had it. A hint beyond the
    /// inputs is as good as none: requests may bring names that the signature does not have.
    pub fn input_index(&self, name: &[u8], hint: usize) -> Option<usize> {
        let count = self.inputs.len();
        let hint = if hint < count { hint } else { 0 };
        (0..count)
            .map(|step| if hint + step < count { hint + step } else { hint + step - count })
            .find(|at| self.inputs[*at].name.as_bytes() == name)
    }
}
