//! The answer to a Predict, Classify, Regress or SessionRun call.

use bytes::Bytes;
use tidegate_codec::inference::InferenceOutputs;
use tidegate_codec::protobuf::frame::{finish_frame, start_frame};
use tidegate_codec::protobuf::{predict_response, session_run};
use tidegate_codec::status::{Code, Status};
use tidegate_engine::metrics::Endpoint;
use tidegate_engine::request::{Reply, Rows, Tags};

use crate::endpoints::body::held;
use crate::endpoints::examples::InferenceReply;
use crate::endpoints::grpc::reply::GrpcReply;

/// The outputs that a client wants, and so the message that it gets.
#[derive(Debug)]
pub enum Selection {
    /// All, by name.
    All,
    /// These, by name.
    Some(Box<[usize]>),
    /// These, under the names that the client gave them.
    Fetches(Box<[(usize, Box<str>)]>),
    /// A classification or a regression.
    Inference(InferenceOutputs),
}

/// A call's way back, and the message that is to be sent on it.
#[derive(Debug)]
pub struct PredictionReply {
    call: GrpcReply,
    /// The outputs that the client wants.
    pub selection: Selection,
}

impl From<GrpcReply> for PredictionReply {
    fn from(call: GrpcReply) -> PredictionReply {
        PredictionReply { call, selection: Selection::All }
    }
}

impl PredictionReply {
    /// The call, for another kind of answer.
    pub fn into_call(self) -> GrpcReply {
        self.call
    }
}

impl InferenceReply for PredictionReply {
    fn select_inference(&mut self, outputs: InferenceOutputs) {
        self.selection = Selection::Inference(outputs);
    }
}

impl Reply for PredictionReply {
    fn endpoint(&self) -> Endpoint {
        Endpoint::Grpc
    }

    fn is_gone(&mut self) -> bool {
        self.call.is_gone()
    }

    fn succeed(self, rows: &Rows<'_>, tags: Tags<'_>) -> Code {
        match encode(rows, &self.selection) {
            Ok(message) => {
                self.call.succeed(held(message, &rows.served.memory), tags);
                Code::Ok
            }
            Err(status) => {
                self.call.fail(&status, tags);
                status.code
            }
        }
    }

    fn fail(self, status: &Status, tags: Tags<'_>) {
        self.call.fail(status, tags);
    }
}

/// The framed message.
fn encode(rows: &Rows<'_>, selection: &Selection) -> Result<Bytes, Status> {
    let spec = rows.served.model_spec();
    Ok(match selection {
        Selection::All => predict_response::encode(rows.all_named(), &spec),
        Selection::Some(chosen) => predict_response::encode(chosen.iter().map(|index| rows.named(*index)), &spec),
        Selection::Fetches(fetches) => {
            session_run::encode(fetches.iter().map(|(index, name)| (&**name, rows.slice(*index))), &spec)
        }
        Selection::Inference(outputs) => {
            let inference = rows.inference(*outputs)?;
            let mut out = start_frame(96);
            inference.write_result(&mut out);
            spec.write(&mut out, 2);
            finish_frame(out)
        }
    })
}
