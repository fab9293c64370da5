//! Whether and how a call's messages are compressed, and what gRPC asks of those that contradict their call.

use bytes::Bytes;
use http::HeaderMap;
use tidegate_codec::status::Status;
use tidegate_engine::memory::Reservation;

use crate::endpoints::compression::inflate;

/// How a call's messages are compressed that say so; empty where it does not say.
pub fn encoding_of(headers: &HeaderMap) -> &str {
    headers.get("grpc-encoding").and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Whether a message says that it is compressed, by the first byte of its frame.
pub fn is_compressed(first: u8) -> Result<bool, Status> {
    match first {
        0 => Ok(false),
        1 => Ok(true),
        other => {
            Err(Status::internal(format!("a message begins with byte {other}: send 0, or 1 where it is compressed")))
        }
    }
}

/// The plain message, as `inflate` has it. That a message is compressed in a call that names no compression is an error of
/// the client's library, for which gRPC has INTERNAL.
pub fn unpack(
    encoding: &str,
    packed: &[u8],
    most: usize,
    gives_up: &mut dyn FnMut() -> bool,
    memory: &mut Reservation,
) -> Result<Option<Bytes>, Status> {
    if matches!(encoding, "" | "identity") {
        return Err(Status::internal(
            "a message says that it is compressed: name how in grpc-encoding, gzip or deflate",
        ));
    }
    inflate(encoding, packed, most, gives_up, memory)
}
