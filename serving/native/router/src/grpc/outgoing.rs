//! A call on its way to nodes, once or twice.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Reason, SendStream};
use http::header::CONTENT_TYPE;
use http::uri::{Parts, PathAndQuery};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, request};
use tidegate_codec::protobuf::frame::frame;
use tidegate_codec::status::Code;
use tidegate_plane::connections::lifeline::Lifeline;

use crate::forward::Missed;
use crate::grpc::answer::{GrpcAnswer, code_of};
use crate::headers::{GRPC_ENCODING, GRPC_TIMEOUT, grpc_timeout};
use crate::links::http2::{GrpcLinks, NoPlace};
use crate::links::tls::Protocol;
use crate::node::Node;

/// Messages of fewer bytes are copied behind their length, which costs less than a frame of its own.
const COPIED: usize = 16 << 10;
const FRAME_HEAD: usize = 5;

/// Who has no more calls open on a connection, of one message each and of no more bytes, asks for little.
const FEW_CALLS: usize = 4;
const FEW_BYTES: usize = 1 << 10;

/// A call whose first message is there.
pub struct Outgoing {
    path: PathAndQuery,
    headers: HeaderMap,
    message: Bytes,
    deadline: Option<Instant>,
    /// Whether it is the only one.
    whole: bool,
    /// Whether its client asks for little.
    little: bool,
}

/// A call that a node has begun to answer, and what further messages go through.
pub struct Begun {
    /// Its answer.
    pub answer: GrpcAnswer,
    /// Closed where the call has one message.
    pub messages: SendStream<Bytes>,
}

/// Why a node has not begun to answer.
enum Failed {
    /// It ended the connection, which says nothing of a new one: too much may have been given up on it.
    Connection(h2::Error),
    Missed(Missed<Begun>),
}

impl Failed {
    fn missed(self, node: &Node) -> Missed<Begun> {
        match self {
            Failed::Missed(missed) => missed,
            Failed::Connection(why) => {
                node.pause(Protocol::Grpc).fail(Instant::now());
                Missed::Unreachable(format!("{}: {why}", node.addresses.grpc))
            }
        }
    }
}

impl From<Missed<Begun>> for Failed {
    fn from(missed: Missed<Begun>) -> Failed {
        Failed::Missed(missed)
    }
}

impl Outgoing {
    /// A call with this head and message, of one message or more, with the time that it has, where that is known, over that
    /// connection.
    pub fn new(
        head: request::Parts,
        message: Bytes,
        deadline: Option<Instant>,
        whole: bool,
        lifeline: Option<&Arc<Lifeline>>,
    ) -> Outgoing {
        let calls = lifeline.map_or(1, |lifeline| lifeline.open_calls());
        let little = whole && calls <= FEW_CALLS && message.len() <= FEW_BYTES;
        // HTTP/2 has no headers of one connection alone.
        let mut headers = head.headers;
        // Messages go on as they are once they were decompressed.
        headers.remove(GRPC_ENCODING);
        headers.remove(GRPC_TIMEOUT);
        let path = head.uri.into_parts().path_and_query.unwrap_or(PathAndQuery::from_static("/"));
        Outgoing { path, headers, message, deadline, whole, little }
    }

    /// The headers that go on to the node.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Sends it to a node, until the head of the answer has come; once more where the connection ends, as it may for what
    /// others gave up on it.
    pub async fn send(&self, lane: usize, node: Arc<Node>) -> Result<Begun, Missed<Begun>> {
        match self.ask(lane, &node).await {
            Err(Failed::Connection(_)) => {}
            ended => return ended.map_err(|failed| failed.missed(&node)),
        }
        self.ask(lane, &node).await.map_err(|failed| failed.missed(&node))
    }

    async fn ask(&self, lane: usize, node: &Arc<Node>) -> Result<Begun, Failed> {
        let outstanding = node.begin();
        let failed = |why: String| {
            node.pause(Protocol::Grpc).fail(Instant::now());
            Missed::Unreachable(why)
        };
        let links = node.grpc.as_ref().map_err(|why| failed(why.clone()))?;
        let (mut sender, place) = links.ready(lane, self.little).await.map_err(|why| match why {
            NoPlace::Unreachable(why) => failed(why),
            NoPlace::Full(why) => Missed::Unreachable(why),
        })?;
        let reached = |why: h2::Error| match why.reason() {
            Some(Reason::ENHANCE_YOUR_CALM) if why.is_go_away() => Failed::Connection(why),
            None if why.is_io() => Failed::Connection(why),
            // One call was not taken, of which the node itself may well be.
            Some(Reason::REFUSED_STREAM | Reason::CANCEL | Reason::ENHANCE_YOUR_CALM) if why.is_reset() => {
                Missed::Unreachable(format!("{}: {why}", node.addresses.grpc)).into()
            }
            _ => failed(format!("{}: {why}", node.addresses.grpc)).into(),
        };
        let (response, messages) = self.begin(&mut sender, links).map_err(reached)?;
        let response = response.await.map_err(reached)?;
        node.pause(Protocol::Grpc).end();
        if let Some(what) = nonsense(&response, self.whole) {
            let why = format!("{} answers {what}", node.addresses.grpc);
            return Err(Missed::Unreachable(why).into());
        }
        let refused = is_refusal(&response);
        let begun = Begun { answer: GrpcAnswer { response, outstanding, place }, messages };
        if refused { Err(Missed::Refused(begun).into()) } else { Ok(begun) }
    }

    fn begin(
        &self,
        sender: &mut SendRequest<Bytes>,
        links: &GrpcLinks,
    ) -> Result<(h2::client::ResponseFuture, SendStream<Bytes>), h2::Error> {
        let (response, mut messages) = sender.send_request(self.request(links), false)?;
        // All of it is there already, and is sent as the node takes it.
        if self.message.len() <= COPIED {
            messages.send_data(frame(&self.message), self.whole)?;
        } else {
            let mut head = [0; FRAME_HEAD];
            head[1..].copy_from_slice(&(self.message.len() as u32).to_be_bytes());
            messages.send_data(Bytes::copy_from_slice(&head), false)?;
            messages.send_data(self.message.clone(), self.whole)?;
        }
        Ok((response, messages))
    }

    fn request(&self, links: &GrpcLinks) -> Request<()> {
        let mut parts = Parts::default();
        parts.scheme = Some(links.scheme.clone());
        parts.authority = Some(links.authority.clone());
        parts.path_and_query = Some(self.path.clone());
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        *request.headers_mut() = self.headers.clone();
        if let Some(deadline) = self.deadline {
            request.headers_mut().insert(GRPC_TIMEOUT, grpc_timeout(deadline, Instant::now()));
        }
        request
    }
}

/// What an answer is that no engine gives; `whole` where the call has one message.
fn nonsense(response: &Response<h2::RecvStream>, whole: bool) -> Option<String> {
    let headers = response.headers();
    if response.status() != StatusCode::OK {
        return Some(response.status().to_string());
    }
    let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    if !kind.starts_with(b"application/grpc") {
        return Some(format!("content type '{}'", kind.escape_ascii()));
    }
    let empty = whole && response.body().is_end_stream() && matches!(code_of(headers), None | Some(Code::Ok));
    empty.then(|| "without a message".to_owned())
}

/// Whether another node may well answer instead: this one cannot now, or has just unloaded the model.
fn is_refusal(response: &Response<h2::RecvStream>) -> bool {
    matches!(code_of(response.headers()), Some(Code::Unavailable | Code::NotFound))
}
