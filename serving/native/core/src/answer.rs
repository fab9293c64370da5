//! One request's answer: its rows of a batch's outputs, in the protocol and the kind that the client asked for.
//! A finished batch, or a request without rows, comes in; the encoded answer leaves through the request's reply.

use crate::batch::Output;
use crate::column::Column;
use crate::grpc_reply::Tags;
use crate::head::Head;
use crate::inference_response::Inference;
use crate::inflight::{Reply, Wanted};
use crate::json_response;
use crate::predict_request::{Choice, ModelSpec};
use crate::predict_response::{self, finish_frame, start_frame};
use crate::rest;
use crate::session_run;
use crate::status::{Code, Status};
use crate::tensor_slice::Slice;
use crate::version::ServedSignature;
use crate::wire;

/// One request's rows.
pub struct Rows<'a> {
    /// Whose outputs.
    pub served: &'a ServedSignature,
    /// All declared outputs, in order.
    pub outputs: &'a [Output],
    /// The request's first row in them.
    pub first: usize,
    /// Its number of rows.
    pub rows: usize,
    /// How many rows it came with, where it was of rows.
    pub examples: usize,
    /// Whether outputs of one element per row go without their second axis.
    pub flat: bool,
    /// Whether the outputs are the request's as they are, without an axis for rows.
    pub whole: bool,
}

/// What a request without rows gets: outputs without rows. Dimensions that only the model knows are 0.
pub fn no_rows(served: &ServedSignature) -> Vec<Output> {
    let outputs = served.signature.outputs.iter();
    let inner = |dim: &i64| usize::try_from(*dim).unwrap_or(0);
    outputs
        .map(|spec| Output {
            column: Column::new(spec.dtype),
            shape: std::iter::once(0).chain(spec.inner().iter().map(inner)).collect(),
        })
        .collect()
}

impl<'a> Rows<'a> {
    fn named(&self, index: usize) -> (&'a str, Slice<'a>) {
        (self.served.signature.outputs[index].name.as_str(), self.slice(index))
    }

    fn slice(&self, index: usize) -> Slice<'a> {
        let (spec, output) = (&self.served.signature.outputs[index], &self.outputs[index]);
        let (dtype, column, inner, whole) = (spec.dtype, &output.column, output.inner(self.whole), self.whole);
        match inner {
            [.., 1] if self.flat && inner.len() == 1 + usize::from(whole) => {
                Slice { dtype, column, inner: &inner[..inner.len() - 1], first: self.first, rows: self.rows, whole }
            }
            _ => Slice { dtype, column, inner, first: self.first, rows: self.rows, whole },
        }
    }

    fn inference(&self, head: Head) -> Result<Inference<'a>, Status> {
        match head {
            Head::Classify { classes, scores } => {
                Inference::classes(classes.map(|at| self.slice(at)), scores.map(|at| self.slice(at)), self.examples)
            }
            Head::Regress(at) => Inference::regression(self.slice(at), self.examples),
        }
    }

    /// The `ModelSpec` that answers, encoded.
    fn model_spec(&self) -> Vec<u8> {
        let ServedSignature { model, number, signature, .. } = self.served;
        let mut spec = Vec::new();
        ModelSpec { name: model, choice: Choice::Version(*number), signature_name: &signature.name }.write(&mut spec);
        spec
    }

    /// Encodes the rows and sends them. Returns the code that the client sees.
    pub fn send(&self, reply: Reply, wanted: &Wanted, tags: Tags<'_>) -> Code {
        let encoded = self.inference_of(wanted).and_then(|inference| {
            let body = match (&reply, &inference) {
                (Reply::Rest(_, form), None) => self.json(*form)?,
                (Reply::Rest(..), Some(inference)) => inference.to_json(),
                _ => Vec::new(),
            };
            Ok((inference, body))
        });
        match encoded {
            Ok((inference, body)) => {
                match reply {
                    Reply::Grpc(reply) => reply.succeed(self.message(wanted, inference.as_ref()), tags),
                    Reply::Rest(sender, _) => {
                        let _ = sender.send(rest::with_body(http::StatusCode::OK, body, tags));
                    }
                    Reply::Embedded(reply) => reply.succeed((0..self.outputs.len()).map(|index| self.slice(index))),
                    Reply::Part(part) => {
                        let mut result = Vec::new();
                        wire::put_bytes(&mut result, 1, &self.model_spec());
                        inference.iter().for_each(|inference| inference.write_task_result(&mut result));
                        part.succeed(result, tags);
                    }
                }
                Code::Ok
            }
            Err(status) => {
                reply.fail(&status, tags);
                status.code
            }
        }
    }

    fn inference_of(&self, wanted: &Wanted) -> Result<Option<Inference<'a>>, Status> {
        match wanted {
            Wanted::Head(head) => self.inference(*head).map(Some),
            _ => Ok(None),
        }
    }

    /// The framed message that a gRPC call gets.
    fn message(&self, wanted: &Wanted, inference: Option<&Inference<'_>>) -> bytes::Bytes {
        let field = &self.served.model_spec_field;
        if let Some(inference) = inference {
            let mut out = start_frame(96);
            inference.write_result(&mut out);
            out.extend_from_slice(field);
            return finish_frame(out);
        }
        match wanted {
            Wanted::Some(chosen) => predict_response::encode(chosen.iter().map(|index| self.named(*index)), field),
            Wanted::Fetches(fetches) => {
                let tensors = fetches.iter().map(|(index, name)| (&**name, self.slice(*index)));
                session_run::encode(tensors, &self.model_spec())
            }
            Wanted::All | Wanted::Head(_) => {
                predict_response::encode((0..self.outputs.len()).map(|index| self.named(index)), field)
            }
        }
    }

    fn json(&self, form: crate::json_request::Form) -> Result<Vec<u8>, Status> {
        match self.outputs.len() {
            1 => json_response::encode(&[self.named(0)], form),
            count => json_response::encode(&(0..count).map(|index| self.named(index)).collect::<Vec<_>>(), form),
        }
    }
}
