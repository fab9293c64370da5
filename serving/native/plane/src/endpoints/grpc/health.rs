//! `grpc.health.v1.Health`, which load balancers and Kubernetes call: `Check` answers once, `List` for all services,
//! `Watch` at each change.

use std::future::poll_fn;
use std::time::Instant;

use bytes::Bytes;
use h2::SendStream;
use tidegate_codec::protobuf::frame::frame;
use tidegate_codec::protobuf::wire::{self, Reader};
use tidegate_codec::status::{Code, Status};
use tidegate_engine::request::Tags;
use tokio::sync::watch;

use crate::endpoints::grpc::infer_methods;
use crate::endpoints::grpc::reply::trailers_of;
use crate::endpoints::grpc::service::GrpcCall;
use crate::state::Readiness;

/// The method that answers once.
pub const CHECK: &str = "/grpc.health.v1.Health/Check";
/// The method that answers once for all services.
pub const LIST: &str = "/grpc.health.v1.Health/List";
/// The method that answers whenever something changes.
pub const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// All.
pub const METHODS: [&str; 3] = [CHECK, LIST, WATCH];

/// The two names without a package are those under which TensorFlow Serving's binary registers its services, and which
/// probes of Kubernetes name.
const SERVICES: [&str; 7] = [
    "",
    "PredictionService",
    "ModelService",
    infer_methods::SERVICE,
    "tensorflow.serving.PredictionService",
    "tensorflow.serving.ModelService",
    "tensorflow.serving.SessionService",
];
const SERVING: u64 = 1;
const NOT_SERVING: u64 = 2;
const SERVICE_UNKNOWN: u64 = 3;

/// The answer to a `HealthCheckRequest`; all services are ready together.
pub fn check(message: &[u8], ready: bool) -> Result<Vec<u8>, Status> {
    let service = parse(message)?;
    if !SERVICES.contains(&service) {
        return Err(Status::not_found(format!("unknown service {service}")));
    }
    Ok(response(status_of(ready)))
}

/// The answer to a `HealthListRequest`, which has no fields: the status of each service by its name.
pub fn list(ready: bool) -> Vec<u8> {
    let mut listed = Vec::new();
    for service in SERVICES {
        let mut entry = Vec::new();
        wire::put_bytes(&mut entry, 1, service.as_bytes());
        wire::put_bytes(&mut entry, 2, &response(status_of(ready)));
        wire::put_bytes(&mut listed, 1, &entry);
    }
    listed
}

fn status_of(ready: bool) -> u64 {
    if ready { SERVING } else { NOT_SERVING }
}

fn parse(message: &[u8]) -> Result<&str, Status> {
    let mut service = "";
    let mut reader = Reader::new(message);
    while let Some(found) = reader.next_field()? {
        if found.number == 1 {
            service = found.text("HealthCheckRequest")?;
        }
    }
    Ok(service)
}

fn response(status: u64) -> Vec<u8> {
    let mut response = Vec::new();
    wire::put_uint(&mut response, 1, status);
    response
}

/// Answers a `Watch`: the present status at once, then each other one, until the client leaves, its own deadline
/// passes, or the plane drains. A service that is not known may come to be, so its stream stays open. Returns the code
/// that the client sees.
pub async fn watch(call: GrpcCall, readiness: watch::Receiver<Readiness>, tags: Tags<'_>) -> Code {
    let known = match parse(&call.message) {
        Ok(service) => SERVICES.contains(&service),
        Err(status) => {
            call.reply.fail(&status, tags);
            return status.code;
        }
    };
    let GrpcCall { head, message, deadline, reply, .. } = call;
    // It may be large, and the call may stay for long.
    drop(message);
    let observation = reply.observation.clone();
    let Some((stream, mut open)) = reply.begin(tags) else { return Code::Cancelled };
    open.note_due(false);
    let limit = head.headers.contains_key("grpc-timeout").then_some(deadline);
    let code = tell(stream, known, readiness, limit).await;
    observation.answered(code, 0);
    code
}

/// The answers themselves.
async fn tell(
    mut stream: SendStream<Bytes>,
    known: bool,
    mut readiness: watch::Receiver<Readiness>,
    limit: Option<Instant>,
) -> Code {
    let (limited, until) = (limit.is_some(), limit.unwrap_or_else(Instant::now));
    let mut last = None;
    loop {
        let Readiness { ready, draining, .. } = readiness.borrow_and_update().clone();
        let status = if known { status_of(ready) } else { SERVICE_UNKNOWN };
        if last != Some(status) && stream.send_data(frame(&response(status)), false).is_err() {
            return Code::Cancelled;
        }
        last = Some(status);
        if draining {
            return end(stream, &Status::new(Code::Unavailable, "the server is draining"));
        }
        tokio::select! {
            _ = readiness.changed() => {}
            _ = poll_fn(|context| stream.poll_reset(context)) => return Code::Cancelled,
            () = tokio::time::sleep_until(until.into()), if limited => {
                return end(stream, &Status::new(Code::DeadlineExceeded, "the deadline of the watch passed"));
            }
        }
    }
}

fn end(mut stream: SendStream<Bytes>, status: &Status) -> Code {
    let _ = stream.send_trailers(trailers_of(status));
    status.code
}
