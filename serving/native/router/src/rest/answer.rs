//! A node's answer over REST, passed on as it comes: no faster than the client takes it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tidegate_plane::endpoints::rest::answer_body::RestBody;
use tidegate_plane::endpoints::rest::service::RestResponse;

use crate::headers::drop_hop_by_hop;
use crate::links::http1::RestLink;
use crate::node::Outstanding;

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
#[derive(Debug)]
struct Passing {
    body: Incoming,
    ended: bool,
    from: From,
}

impl NodeAnswer {
    /// As the client gets it.
    pub fn pass(self) -> RestResponse {
        let (mut head, body) = self.response.into_parts();
        drop_hop_by_hop(&mut head.headers);
        let passing = Passing { body, ended: false, from: self.from };
        Response::from_parts(head, RestBody::Passed(passing.boxed_unsync(), None))
    }
}

impl Body for Passing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.ended |= matches!(polled, Poll::Ready(None));
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
