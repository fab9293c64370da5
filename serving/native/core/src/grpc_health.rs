//! `grpc.health.v1.Health/Check`, the standard question of load balancers and Kubernetes.
//! The gRPC door hands in the message; the readiness that Python sets is the answer.

use crate::status::Status;
use crate::wire::{self, Reader};

/// The method.
pub const CHECK: &str = "/grpc.health.v1.Health/Check";

const SERVICES: [&str; 4] = [
    "",
    "tensorflow.serving.PredictionService",
    "tensorflow.serving.ModelService",
    "tensorflow.serving.SessionService",
];
const SERVING: u64 = 1;
const NOT_SERVING: u64 = 2;

/// The answer to a `HealthCheckRequest`; all services are ready together.
pub fn check(message: &[u8], ready: bool) -> Result<Vec<u8>, Status> {
    let mut service = "";
    let mut reader = Reader::new(message);
    while let Some(found) = reader.next_field()? {
        if found.number == 1 {
            service = found.text("HealthCheckRequest")?;
        }
    }
    if !SERVICES.contains(&service) {
        return Err(Status::not_found(format!("unknown service {service}")));
    }
    let mut response = Vec::new();
    wire::put_uint(&mut response, 1, if ready { SERVING } else { NOT_SERVING });
    Ok(response)
}
