//! `MultiInference`: several classifications and regressions of the same examples by one version.

use crate::inference::{InferenceMethod, InferenceOutputs};
use crate::model_spec::ModelSpec;
use crate::protobuf::examples::ExampleInput;
use crate::protobuf::wire::{self, Reader};
use crate::signatures::Signature;
use crate::status::{Code, Status};

/// One question.
#[derive(Debug, Default)]
struct Task<'a> {
    spec: Option<ModelSpec<'a>>,
    method_name: &'a str,
}

/// The signature that a task runs, its method and the outputs that answer it.
pub type ResolvedTask<S> = (S, InferenceMethod, InferenceOutputs);

/// `MultiInferenceRequest`.
#[derive(Debug, Default)]
pub struct MultiInferenceRequest<'a> {
    tasks: Vec<Task<'a>>,
    /// The examples of all tasks.
    pub input: ExampleInput<'a>,
}

impl<'a> MultiInferenceRequest<'a> {
    /// Reads the message.
    pub fn parse(message: &'a [u8]) -> Result<MultiInferenceRequest<'a>, Status> {
        const MESSAGE: &str = "MultiInferenceRequest";
        let mut request = MultiInferenceRequest::default();
        let mut reader = Reader::new(message);
        while let Some(found) = reader.next_field()? {
            match found.number {
                1 => wire::push_entry(&mut request.tasks, Task::parse(found.bytes(MESSAGE)?)?, "tasks")?,
                2 => request.input = ExampleInput::parse(found.bytes(MESSAGE)?)?,
                _ => {}
            }
        }
        Ok(request)
    }

    /// The model and version that all tasks ask, which is the first one's.
    pub fn spec(&self) -> ModelSpec<'a> {
        self.tasks.first().and_then(|task| task.spec).unwrap_or_default()
    }

    /// The signature of each task, which `find` looks up by name, and how it answers; or why the request cannot be.
    pub fn resolve<'s, S>(
        &self,
        find: impl Fn(&str) -> Option<(S, &'s Signature)>,
    ) -> Result<Vec<ResolvedTask<S>>, Status> {
        let mut resolved: Vec<ResolvedTask<S>> = Vec::with_capacity(self.tasks.len());
        let model = self.spec().name;
        for (at, task) in self.tasks.iter().enumerate() {
            let spec = task.spec.unwrap_or_default();
            if spec.name.is_empty() {
                return Err(Status::invalid("Found ModelSpec with an empty model name."));
            }
            if spec.name != model {
                return Err(Status::invalid(
                    "All ModelSpecs in a MultiInferenceRequest must access the same model name.",
                ));
            }
            let name = spec.signature();
            if self.tasks[..at].iter().any(|other| other.spec.unwrap_or_default().signature() == name) {
                return Err(Status::invalid(format!("Duplicate evaluation of signature: {name}")));
            }
            let (found, signature) = find(name)
                .ok_or_else(|| Status::invalid(format!("Requested signature not found in model graph: {name}")))?;
            let method = InferenceMethod::from_name(task.method_name).ok_or_else(|| {
                let text = format!("Unsupported signature method_name: {}", task.method_name);
                Status::new(Code::Unimplemented, text)
            })?;
            let outputs = InferenceOutputs::of(method, signature, self.input.examples.len())?;
            resolved.push((found, method, outputs));
        }
        Ok(resolved)
    }
}

impl<'a> Task<'a> {
    fn parse(message: &'a [u8]) -> Result<Task<'a>, Status> {
        const MESSAGE: &str = "InferenceTask";
        let mut task = Task::default();
        let mut reader = Reader::new(message);
        while let Some(found) = reader.next_field()? {
            match found.number {
                1 => task.spec = Some(ModelSpec::parse(found.bytes(MESSAGE)?)?),
                2 => task.method_name = found.text(MESSAGE)?,
                _ => {}
            }
        }
        Ok(task)
    }
}
