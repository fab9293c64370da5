//! The body of an answer: whole, message by message, or as it comes from elsewhere.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, SizeHint};

use crate::connections::lifeline::OpenCall;
use crate::endpoints::rest::events::Events;

/// What an answer says.
#[derive(Debug)]
pub enum RestBody {
    /// All of it.
    Whole(Full<Bytes>),
    /// One message after the other.
    Events(Box<Events>),
    /// What another server answers. The connection is in use for as long as it comes.
    Passed(UnsyncBoxBody<Bytes, io::Error>, Option<OpenCall>),
}

impl RestBody {
    /// Has the call be open for as long as the body is sent.
    pub(crate) fn hold(&mut self, call: OpenCall) {
        match self {
            RestBody::Whole(_) => drop(call),
            RestBody::Events(events) => events.open = Some(call),
            RestBody::Passed(_, open) => *open = Some(call),
        }
    }
}

impl Body for RestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            RestBody::Whole(whole) => Pin::new(whole).poll_frame(context).map_err(|never| match never {}),
            RestBody::Events(events) => {
                events.poll_event(context).map(|event| event.map(|event| Ok(Frame::data(event))))
            }
            RestBody::Passed(body, _) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            RestBody::Whole(whole) => whole.is_end_stream(),
            RestBody::Events(events) => events.is_over(),
            RestBody::Passed(body, _) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            RestBody::Whole(whole) => whole.size_hint(),
            RestBody::Events(_) => SizeHint::default(),
            RestBody::Passed(body, _) => body.size_hint(),
        }
    }
}
