//! A node's answer over REST, passed on as it comes: no faster than the client takes it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tidegate_plane::endpoints::rest::answer_body::RestBody;
use tidegate_plane::endpoints::rest::service::RestResponse;

use crate::headers::drop_hop_by_hop;
use crate::links::http1::RestLink;
use crate::node::Outstanding;
use crate::time_left::TimeLeft;

/// An answer whose head has come.
pub struct NodeAnswer {
    /// Head, and the body as far as it has come.
    pub response: Response<Incoming>,
    /// Where it comes from.
    pub from: From,
}

/// The connection that an answer comes through, and the node that has it to do.
#[derive(Debug)]
pub struct From {
    /// The I/O thread.
    pub lane: usize,
    /// Kept once the answer is there.
    pub link: Option<RestLink>,
    /// The node.
    pub outstanding: Outstanding,
}

/// The body of an answer on its way.
struct Passing {
    body: Incoming,
    ended: bool,
    left: TimeLeft,
    /// Runs while more is waited for.
    over: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    from: From,
}

impl NodeAnswer {
    /// As the client gets it; it breaks off where the rest does not come before the deadline, unless it is a
    /// stream of events.
    pub fn pass(self, deadline: Option<Instant>) -> RestResponse {
        let (mut head, body) = self.response.into_parts();
        drop_hop_by_hop(&mut head.headers);
        let left = TimeLeft::until(deadline.filter(|_| !is_stream(&head.headers)));
        let passing = Passing { body, ended: false, left, over: None, from: self.from };
        Response::from_parts(head, RestBody::Passed(passing.boxed_unsync(), None))
    }
}

/// Whether it is a stream of events, which may take longer than any one request.
fn is_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

impl Body for Passing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.over.is_none() {
            self.left.taken();
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_pending() {
            let this = &mut *self;
            ready!(this.over.get_or_insert_with(|| Box::pin(this.left.over())).as_mut().poll(context));
            return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
        }
        self.ended |= matches!(polled, Poll::Ready(None));
        self.over = None;
        self.left.hand();
        polled.map_err(io::Error::other)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Passing {
    /// A connection with the rest of an answer in it is closed, which tells the node.
    fn drop(&mut self) {
        if (self.ended || self.body.is_end_stream())
            && let Some(link) = self.from.link.take()
        {
            self.from.outstanding.node().rest.keep(self.from.lane, link);
        }
    }
}
