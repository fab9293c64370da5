//! What a call's head says of the call as a whole: how much its metadata take, and how long it may take.

use std::time::Duration;

use http::request;
use tidegate_codec::status::Status;

/// Bytes of metadata that a call may have, counted as HTTP/2 does.
const MOST: usize = 16 << 10;

/// So many are read, so that whoever sends too many hears of it as a client of gRPC does: by a status of the call. Beyond
/// that the HTTP layer answers.
pub const MOST_READ: u32 = 64 << 10;

/// What a field takes beside its name and value.
const FIELD: usize = 32;

/// Refuses a call whose metadata take more than they may.
pub fn check_size(head: &request::Parts) -> Result<(), Status> {
    let fields = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD);
    let size = fields.sum::<usize>() + head.uri.path().len();
    if size <= MOST {
        return Ok(());
    }
    let what = format!("the call's metadata take {size} bytes, more than the limit of {MOST}: send less of it");
    Err(Status::exhausted(what))
}

/// `grpc-timeout`, where the client sent one, but never more than an hour. gRPC has at most eight digits and a unit.
pub fn timeout(head: &request::Parts, default: Duration) -> Result<Duration, Status> {
    const LONGEST: Duration = Duration::from_secs(3600);
    const MOST_DIGITS: usize = 8;
    let Some(sent) = head.headers.get("grpc-timeout") else { return Ok(default.min(LONGEST)) };
    let parsed = sent.to_str().ok().and_then(|text| {
        let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let count = digits.bytes().all(|digit| digit.is_ascii_digit()) && digits.len() <= MOST_DIGITS;
        let count = count.then(|| digits.parse::<u64>().ok())??;
        match unit {
            "H" => Some(Duration::from_secs(count * 3600)),
            "M" => Some(Duration::from_secs(count * 60)),
            "S" => Some(Duration::from_secs(count)),
            "m" => Some(Duration::from_millis(count)),
            "u" => Some(Duration::from_micros(count)),
            "n" => Some(Duration::from_nanos(count)),
            _ => None,
        }
    });
    let sent = || String::from_utf8_lossy(sent.as_bytes()).into_owned();
    let malformed =
        || Status::internal(format!("grpc-timeout is '{}': send up to 8 digits and a unit as in 500m", sent()));
    parsed.map(|timeout| timeout.min(LONGEST)).ok_or_else(malformed)
}
