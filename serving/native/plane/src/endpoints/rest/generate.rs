//! Triton's generate extension: one object in JSON is a request of one row, and so is each answer.

use std::marker::PhantomData;
use std::sync::Arc;

use tidegate_codec::json::plain_object::PlainObject;
use tidegate_codec::model_spec::ModelSpec;
use tidegate_codec::open_inference::datatype;
use tidegate_codec::signatures::{RequestRows, Signature};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Page, Room};
use tidegate_engine::batching::Queue;
use tidegate_engine::metrics::Call;
use tidegate_engine::request::{Payload, Reply};
use tidegate_engine::request_id::RequestId;
use tidegate_engine::serving_map::Version;

use crate::endpoints::open_inference::queue;
use crate::endpoints::rest::events::EventForm;
use crate::endpoints::rest::path::Target;
use crate::endpoints::rest::prediction::RestReply;
use crate::endpoints::rest::routes::{RestRoutes, context};
use crate::endpoints::rest::service::{RestAnswer, RestCall};
use crate::endpoints::stream::StreamReply;

impl<R: Reply + From<RestReply> + From<StreamReply>> RestRoutes<R> {
    /// Predicts for one object, with an answer or with events.
    pub(crate) fn generate(&self, call: &RestCall, target: &Target, streamed: bool, id: RequestId) -> RestAnswer {
        let object = match PlainObject::parse(&call.body) {
            Ok(object) => object.lenient(),
            Err(status) => return RestAnswer::Ready(self.fail(call, &status, &id)),
        };
        let (spec, headers) = (target.spec(""), &call.head.headers);
        if streamed {
            let (reply, answer) = self.open_events(call, EventForm::Generate, self.patience(), &id);
            self.dispatcher.dispatch(context(call, reply, id), &spec, headers, &Generate::new(object));
            return answer;
        }
        let (reply, answer) = RestReply::generate(call);
        self.dispatcher.dispatch(context(call, reply, id), &spec, headers, &Generate::new(object));
        answer
    }
}

/// The object, answered by an `R`.
struct Generate<'a, R> {
    object: PlainObject<'a>,
    reply: PhantomData<fn() -> R>,
}

impl<'a, R> Generate<'a, R> {
    fn new(object: PlainObject<'a>) -> Generate<'a, R> {
        Generate { object, reply: PhantomData }
    }
}

impl<R: Reply> Payload for Generate<'_, R> {
    type Reply = R;

    fn call(&self) -> Call {
        Call::ModelInfer
    }

    fn queue<'v>(&self, spec: &ModelSpec<'_>, version: &'v Version) -> Result<&'v Arc<Queue>, Status> {
        queue(spec, version)
    }

    fn sequence(&self, signature: &Signature, room: &mut dyn Room, _: usize) -> Vec<u8> {
        self.object.sequence(signature, room)
    }

    fn select(&self, signature: &Signature, _: &mut R) -> Result<(), Status> {
        match signature.schema {
            None => datatype::check(signature.needed_inputs().chain(&*signature.outputs)),
            Some(_) => {
                let name = &signature.name;
                Err(Status::invalid(format!("signature '{name}' takes documents: send one to POST /inference/NAME")))
            }
        }
    }

    fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>, _: usize) -> Result<RequestRows, Status> {
        self.object.read_inputs(signature, page)
    }
}
