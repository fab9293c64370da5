//! `MultiInference`: several classifications and regressions of the same examples by one version.
//! The gRPC endpoint hands in the message; each task joins the batch of its signature, the answers are gathered.

use std::sync::Arc;

use crate::example_input::ExampleInput;
use crate::head::{Head, Method};
use crate::predict_request::ModelSpec;
use crate::status::{Code, Status};
use crate::version::{ServedSignature, Version};
use crate::wire::Reader;

/// One question.
#[derive(Debug, Default)]
struct Task<'a> {
    spec: Option<ModelSpec<'a>>,
    method_name: &'a str,
}

/// Where a task goes, what it asks and which outputs answer it.
pub type Aim<'v> = (&'v Arc<ServedSignature>, Method, Head);

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
                1 => request.tasks.push(Task::parse(found.bytes(MESSAGE)?)?),
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

    /// The aim of each task, or why the request cannot be.
    pub fn tasks<'v>(&self, version: &'v Version) -> Result<Vec<Aim<'v>>, Status> {
        let mut chosen: Vec<Aim<'v>> = Vec::with_capacity(self.tasks.len());
        let model = self.spec().name;
        for task in &self.tasks {
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
            if chosen.iter().any(|(served, ..)| served.signature.name == name) {
                return Err(Status::invalid(format!("Duplicate evaluation of signature: {name}")));
            }
            let served = version
                .served(name)
                .ok_or_else(|| Status::invalid(format!("Requested signature not found in model graph: {name}")))?;
            let method = Method::from_name(task.method_name).ok_or_else(|| {
                let text = format!("Unsupported signature method_name: {}", task.method_name);
                Status::new(Code::Unimplemented, text)
            })?;
            chosen.push((served, method, Head::of(method, &served.signature)?));
        }
        Ok(chosen)
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
