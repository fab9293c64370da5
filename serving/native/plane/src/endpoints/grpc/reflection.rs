//! gRPC's server reflection, by which tools such as grpcurl learn what the port offers: each question goes to Python, which
//! has the descriptors.

use std::future::{pending, poll_fn};
use std::sync::Arc;

use bytes::Bytes;
use h2::SendStream;
use tidegate_codec::protobuf::frame::frame;
use tidegate_codec::status::{Code, Status};
use tidegate_engine::request::Tags;
use tokio::time::{sleep, sleep_until};

use crate::control;
use crate::endpoints::grpc::conversation::{Conversation, Messages, send};
use crate::endpoints::grpc::reply::{FRAME_HEAD, keep, trailers_of};
use crate::state::PlaneState;

/// Both names that tools know it by; its messages are the same.
pub const METHODS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Answers every question of a call, until the client has none or leaves, its deadline passes, or the plane drains.
/// Returns the code that the client sees.
pub async fn converse(call: Conversation, state: Arc<PlaneState>, tags: Tags<'_>) -> Code {
    let Conversation { mut messages, deadline, patience, reply, .. } = call;
    let (observation, write) = (reply.observation.clone(), reply.patience());
    let Some((mut stream, mut open)) = reply.begin(tags) else { return Code::Cancelled };
    let (mut readiness, mut sent) = (state.watch_readiness(), 0);
    let over = async {
        match deadline {
            Some(deadline) => sleep_until(deadline.into()).await,
            None => pending().await,
        }
    };
    tokio::pin!(over);
    let ending = loop {
        let question = tokio::select! {
            question = next(&mut messages, &mut stream) => question,
            () = &mut over => Err(Status::new(Code::DeadlineExceeded, "the deadline of the call passed")),
            () = sleep(patience) => Err(Status::new(Code::DeadlineExceeded, "no question came for too long: end the call")),
            _ = readiness.wait_for(|readiness| readiness.draining) => {
                Err(Status::new(Code::Unavailable, "the server is draining"))
            }
        };
        let answer = match question {
            Ok(Some(question)) => {
                open.note_due(true);
                control::wait(state.control.call(METHODS[0], question), gone(&mut stream)).await
            }
            Ok(None) => break Status::new(Code::Ok, ""),
            Err(status) => break status,
        };
        let answer = answer.and_then(|answer| keep(&open, frame(&answer)));
        let answer = match answer {
            Ok(answer) => answer,
            Err(status) => break status,
        };
        let bytes = answer.len() - FRAME_HEAD;
        if !send(&mut stream, answer, write).await {
            break Status::new(Code::Cancelled, "the client takes nothing");
        }
        sent += bytes;
        open.note_due(false);
    };
    observation.answered(ending.code, sent);
    let _ = stream.send_trailers(trailers_of(&ending));
    ending.code
}

async fn next(messages: &mut Messages, stream: &mut SendStream<Bytes>) -> Result<Option<Bytes>, Status> {
    tokio::select! {
        message = messages.next() => message,
        () = gone(stream) => Err(Status::new(Code::Cancelled, "the client has gone")),
    }
}

/// Waits until the client has reset the stream or gone.
async fn gone(stream: &mut SendStream<Bytes>) {
    let _ = poll_fn(|context| stream.poll_reset(context)).await;
}
