//! A node's answer to a call, passed on as it comes: no faster than the client takes it.

use std::future::poll_fn;
use std::sync::OnceLock;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Response};
use tidegate_codec::status::{Code, Status};
use tidegate_plane::endpoints::grpc::conversation::send;
use tidegate_plane::endpoints::grpc::reply::{GrpcReply, trailers_of};

use crate::headers::GRPC_STATUS;
use crate::links::http2::{Place, STREAM_WINDOW};
use crate::node::Outstanding;
use crate::time_left::TimeLeft;

/// An answer whose head has come.
pub struct GrpcAnswer {
    /// Head and what follows.
    pub response: Response<RecvStream>,
    /// Its node has it to do until it is passed on.
    pub outstanding: Outstanding,
    /// Where it comes from.
    pub place: Place,
}

/// What comes next of an answer.
enum Next {
    Data(Bytes),
    End,
    Broken(h2::Error),
    Gone,
    Late,
}

impl GrpcAnswer {
    /// Passes it on, as far as it comes before the deadline; the code that the client sees. `unread` is why not all that the
    /// client sent went to the node, which is then how a good answer ends.
    pub async fn pass(self, reply: GrpcReply, deadline: Option<Instant>, unread: &OnceLock<Status>) -> Code {
        let GrpcAnswer { response, outstanding, place: _place } = self;
        let (mut head, mut body) = response.into_parts();
        let (observation, patience) = (reply.observation.clone(), reply.patience());
        let (over, code) = (body.is_end_stream(), code_of(&head.headers));
        settle_status(&mut head.headers);
        let Some((mut stream, open)) = reply.pass(head.headers, over) else { return Code::Cancelled };
        if over {
            let code = code.unwrap_or(Code::Unknown);
            observation.answered(code, 0);
            return code;
        }
        let (mut bytes, mut left) = (0, TimeLeft::until(deadline));
        let code = loop {
            let next = tokio::select! {
                biased;
                next = next(&mut body, &mut stream) => next,
                () = left.over() => Next::Late,
            };
            match next {
                Next::Data(data) => {
                    let length = data.len();
                    left.hand();
                    // As much more may come while the client does not take this.
                    let kept = match takes(&mut stream, length) {
                        true => Ok(None),
                        false => open.keep(STREAM_WINDOW as usize),
                    };
                    let _kept = match kept {
                        Ok(kept) => kept,
                        Err(status) => break end(Ok(Some(trailers_of(&status))), &mut stream),
                    };
                    if !send(&mut stream, data, patience).await {
                        return Code::Cancelled;
                    }
                    left.taken();
                    // The node may send more once the client took what it sent.
                    let _ = body.flow_control().release_capacity(length);
                    bytes += length;
                }
                Next::Gone => return Code::Cancelled,
                Next::Late => break end(Ok(Some(trailers_of(&late()))), &mut stream),
                Next::End => break end(or_unread(body.trailers().await, unread), &mut stream),
                Next::Broken(why) => break end(Err(why), &mut stream),
            }
        };
        drop(outstanding);
        observation.answered(code, bytes);
        code
    }
}

/// Whether the client takes so many bytes at once.
fn takes(stream: &mut SendStream<Bytes>, bytes: usize) -> bool {
    stream.reserve_capacity(bytes);
    stream.capacity() >= bytes
}

fn late() -> Status {
    Status::new(Code::DeadlineExceeded, "the deadline passed before the node's answer had ended")
}

/// How the node ended, or why it did not get all, where it knows of nothing wrong.
fn or_unread(
    ended: Result<Option<HeaderMap>, h2::Error>,
    unread: &OnceLock<Status>,
) -> Result<Option<HeaderMap>, h2::Error> {
    match (unread.get(), ended) {
        (Some(status), Ok(Some(trailers))) if code_of(&trailers) == Some(Code::Ok) => Ok(Some(trailers_of(status))),
        (_, ended) => ended,
    }
}

/// Ends the client's stream as the node's ended.
fn end(ended: Result<Option<HeaderMap>, h2::Error>, stream: &mut SendStream<Bytes>) -> Code {
    let mut trailers = match ended {
        Ok(Some(trailers)) => trailers,
        Ok(None) => trailers_of(&Status::new(Code::Unknown, "the node's answer ended without a status")),
        Err(why) => trailers_of(&Status::new(Code::Unavailable, format!("the node's answer broke off: {why}"))),
    };
    let code = settle_status(&mut trailers).unwrap_or(Code::Unknown);
    let _ = stream.send_trailers(trailers);
    code
}

async fn next(body: &mut RecvStream, stream: &mut SendStream<Bytes>) -> Next {
    poll_fn(|context| match body.poll_data(context) {
        Poll::Ready(Some(Ok(data))) => Poll::Ready(Next::Data(data)),
        Poll::Ready(Some(Err(why))) => Poll::Ready(Next::Broken(why)),
        Poll::Ready(None) => Poll::Ready(Next::End),
        Poll::Pending => stream.poll_reset(context).map(|_| Next::Gone),
    })
    .await
}

/// The status of an answer as before, and so that it is one of gRPC's: clients end all calls of a connection for another.
fn settle_status(headers: &mut HeaderMap) -> Option<Code> {
    let code = code_of(headers)?;
    headers.insert(GRPC_STATUS, HeaderValue::from(code as u16));
    Some(code)
}

/// The status of an answer, where these headers or trailers have it.
pub fn code_of(headers: &HeaderMap) -> Option<Code> {
    let status = headers.get(GRPC_STATUS)?.to_str();
    Some(status.ok().and_then(|status| status.parse().ok()).map_or(Code::Unknown, Code::from_number))
}
