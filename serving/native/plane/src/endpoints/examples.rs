//! Classify and Regress in any protocol: the examples of a request as the engine takes them.

use std::marker::PhantomData;
use std::sync::Arc;

use tidegate_codec::inference::{InferenceMethod, InferenceOutputs};
use tidegate_codec::model_spec::ModelSpec;
use tidegate_codec::protobuf::examples::ExampleInput;
use tidegate_codec::signatures::{RequestRows, Signature};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::Page;
use tidegate_engine::batching::Queue;
use tidegate_engine::metrics::Call;
use tidegate_engine::request::{Payload, Reply};
use tidegate_engine::serving_map::Version;

/// A reply that can be a classification or a regression.
pub trait InferenceReply: Reply {
    /// These outputs are the answer.
    fn select_inference(&mut self, outputs: InferenceOutputs);
}

/// Examples to be classified or regressed, answered by an `R`.
pub struct Examples<'a, R> {
    method: InferenceMethod,
    input: &'a ExampleInput<'a>,
    reply: PhantomData<fn() -> R>,
}

impl<'a, R> Examples<'a, R> {
    /// A method and its examples.
    pub fn new(method: InferenceMethod, input: &'a ExampleInput<'a>) -> Examples<'a, R> {
        Examples { method, input, reply: PhantomData }
    }
}

impl<R: InferenceReply> Payload for Examples<'_, R> {
    type Reply = R;

    fn call(&self) -> Call {
        match self.method {
            InferenceMethod::Classify => Call::Classify,
            InferenceMethod::Regress => Call::Regress,
        }
    }

    fn queue<'v>(&self, spec: &ModelSpec<'_>, version: &'v Version) -> Result<&'v Arc<Queue>, Status> {
        let name = spec.signature();
        let found = version.queue(name);
        found.ok_or_else(|| Status::invalid(format!("No signature was found with the name: {name}")))
    }

    fn select(&self, signature: &Signature, reply: &mut R) -> Result<(), Status> {
        let examples = self.input.examples.len();
        InferenceOutputs::of(self.method, signature, examples).map(|outputs| reply.select_inference(outputs))
    }

    fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>, _: usize) -> Result<RequestRows, Status> {
        self.input.read_inputs(signature, page)
    }
}
