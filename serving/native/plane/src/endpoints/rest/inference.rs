//! Plain objects: one request is one object in JSON or MessagePack, and so is its answer. The members are the inputs and
//! the outputs of one row, or what the schemas of a signature say.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

use http::StatusCode;
use tidegate_codec::json::plain_object::PlainObject;
use tidegate_codec::json::text::error_body;
use tidegate_codec::model_spec::{DEFAULT_SIGNATURE, ModelSpec};
use tidegate_codec::msgpack::{Binary, to_json};
use tidegate_codec::signatures::{RequestRows, Signature};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::{Page, Room};
use tidegate_engine::batching::Queue;
use tidegate_engine::memory::Reservation;
use tidegate_engine::metrics::Call;
use tidegate_engine::request::{Payload, Reply, Tags};
use tidegate_engine::request_id::RequestId;
use tidegate_engine::serving_map::Version;

use crate::endpoints::body::LESS;
use crate::endpoints::rest::events::{self, EventForm};
use crate::endpoints::rest::media_type::{KNOWN, MediaType};
use crate::endpoints::rest::path::Target;
use crate::endpoints::rest::plain_response::binary;
use crate::endpoints::rest::prediction::RestReply;
use crate::endpoints::rest::routes::{RestRoutes, context};
use crate::endpoints::rest::service::{RestAnswer, RestCall, with_body};
use crate::endpoints::stream::StreamReply;
use crate::security::gate::granted;

/// Models that a message names.
const NAMED: usize = 20;

impl<R: Reply + From<RestReply> + From<StreamReply>> RestRoutes<R> {
    /// Predicts for one plain object.
    pub(crate) fn inference(&self, call: &RestCall, target: Option<Target>, id: RequestId) -> RestAnswer {
        let target = match target.map_or_else(|| self.only_model(call), Ok) {
            Ok(target) => target,
            Err(status) => return RestAnswer::Ready(self.fail(call, &status, &id)),
        };
        let headers = &call.head.headers;
        let sent = match MediaType::sent(headers) {
            Ok(sent) => sent,
            Err(other) => {
                let what = format!("the request's body is of type '{other}': send {KNOWN}, and say so in Content-Type");
                return self.refuse(call, StatusCode::UNSUPPORTED_MEDIA_TYPE, &what, &id);
            }
        };
        let spec = target.spec("");
        if events::wanted(headers) {
            let (reply, answer) = self.open_events(call, EventForm::Plain, self.patience(), &id);
            self.dispatcher.dispatch(context(call, reply, id), &spec, headers, &self.plain(call, sent));
            return answer;
        }
        match MediaType::wanted(headers, sent) {
            Ok(wanted) => {
                let (reply, answer) = RestReply::plain(wanted, call);
                self.dispatcher.dispatch(context(call, reply, id), &spec, headers, &self.plain(call, sent));
                answer
            }
            Err(other) => {
                let what = format!("the answer is wanted as '{other}': accept {KNOWN}");
                self.refuse(call, StatusCode::NOT_ACCEPTABLE, &what, &id)
            }
        }
    }

    fn plain<'a, Q>(&self, call: &'a RestCall, media_type: MediaType) -> Plain<'a, Q> {
        let limits = &self.state.engine.limits;
        let memory = call.lifeline.share(&limits.memory).reservation();
        let room = TextRoom { memory, most: limits.max_message_bytes() };
        Plain { body: &call.body, media_type, room: room.into(), text: RefCell::default(), reply: PhantomData }
    }

    /// The model that serves alone, of those that a client may ask.
    fn only_model(&self, call: &RestCall) -> Result<Target, Status> {
        let (map, grant) = (self.state.engine.map.load(), granted(&call.head));
        let seen = map.versions().map(|version| &*version.model);
        let name = only_one(seen.filter(|name| grant.is_none_or(|grant| grant.sees(name))))?.to_owned();
        Ok(Target { name, version: None, label: None })
    }

    fn refuse(&self, call: &RestCall, http_status: StatusCode, what: &str, id: &RequestId) -> RestAnswer {
        self.count(Code::InvalidArgument, call);
        RestAnswer::Ready(with_body(http_status, error_body(what), Tags { version: None, id: Some(id) }))
    }
}

/// The only name among those of all models, which may each come several times in a row; else an error that tells some.
pub fn only_one<'n>(all: impl Iterator<Item = &'n str>) -> Result<&'n str, Status> {
    let mut names: Vec<&str> = Vec::new();
    for name in all {
        if names.last() != Some(&name) {
            names.push(name);
        }
        if names.len() > NAMED {
            break;
        }
    }
    match names[..] {
        [name] => Ok(name),
        _ => Err(not_one(names)),
    }
}

#[cold]
fn not_one(mut names: Vec<&str>) -> Status {
    if names.is_empty() {
        return Status::not_found("no model serves: POST /inference/NAME answers once there is one");
    }
    names.sort_unstable();
    let more = if names.len() > NAMED { " and others" } else { "" };
    let names = names[..names.len().min(NAMED)].join(", ");
    Status::invalid(format!("more than one model serves: POST to /inference/NAME, where NAME is one of {names}{more}"))
}

/// Memory for a body's text in JSON, as much as a body may have.
struct TextRoom {
    memory: Reservation,
    most: usize,
}

impl Room for TextRoom {
    fn take(&mut self, bytes: usize) -> Result<(), Status> {
        let whole = self.memory.bytes() + bytes;
        if whole > self.most {
            let most = self.most;
            return Err(Status::exhausted(format!(
                "the request's body is larger than the limit of {most} bytes once it is read as JSON: {LESS}"
            )));
        }
        self.memory.grow(bytes, whole)
    }
}

/// A body of one plain object, answered by an `R`.
struct Plain<'a, R> {
    body: &'a [u8],
    media_type: MediaType,
    room: RefCell<TextRoom>,
    /// Of a body that is no JSON itself, and how it has bytes.
    text: RefCell<Option<(Binary, Vec<u8>)>>,
    reply: PhantomData<fn() -> R>,
}

impl<R: Reply> Payload for Plain<'_, R> {
    type Reply = R;

    fn call(&self) -> Call {
        Call::Predict
    }

    /// The default signature, or the only one.
    fn queue<'v>(&self, _: &ModelSpec<'_>, version: &'v Version) -> Result<&'v Arc<Queue>, Status> {
        let found = version.queue(DEFAULT_SIGNATURE).or(match &version.queues[..] {
            [only] => Some(only),
            _ => None,
        });
        found.ok_or_else(|| {
            let names: Vec<&str> = version.queues.iter().map(|queue| queue.signature().name.as_str()).collect();
            let (model, names) = (&version.model, names.join(", "));
            Status::invalid(format!(
                "model '{model}' has no signature '{DEFAULT_SIGNATURE}', which plain objects are for: ask for one of \
                 {names} at /v1/models/{model}:predict"
            ))
        })
    }

    fn sequence(&self, signature: &Signature, room: &mut dyn Room, _: usize) -> Vec<u8> {
        match self.unpack(signature) {
            Ok(()) => self.object(|object| object.sequence(signature, room)),
            Err(_) => Vec::new(),
        }
    }

    fn select(&self, signature: &Signature, _: &mut R) -> Result<(), Status> {
        match self.media_type {
            MediaType::Json => PlainObject::parse(self.body).map(drop),
            MediaType::MessagePack(_) => self.unpack(signature),
        }
    }

    fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>, _: usize) -> Result<RequestRows, Status> {
        self.object(|object| object.read_inputs(signature, page))
    }
}

impl<R> Plain<'_, R> {
    /// Has the text of a body that is no JSON itself there, once for all signatures that take bytes in the same way.
    fn unpack(&self, signature: &Signature) -> Result<(), Status> {
        let binary = binary(signature);
        let mut text = self.text.borrow_mut();
        if self.media_type == MediaType::Json || text.as_ref().is_some_and(|(known, _)| *known == binary) {
            return Ok(());
        }
        let mut room = self.room.borrow_mut();
        let earlier = room.memory.bytes();
        *text = None;
        room.memory.shrink(earlier);
        *text = Some((binary, to_json(self.body, binary, &mut *room)?));
        Ok(())
    }

    fn object<T>(&self, read: impl FnOnce(PlainObject<'_>) -> T) -> T {
        let text = self.text.borrow();
        read(PlainObject::checked(text.as_ref().map_or(self.body, |(_, text)| text)))
    }
}
