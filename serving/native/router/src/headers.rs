//! Which headers pass, and what is said of the time that is left.

use std::time::{Duration, Instant};

use http::header::{
    CONNECTION, CONTENT_LENGTH, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue};

/// gRPC's header with the time that a call may take.
pub const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// How a call ended.
pub const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// How messages of a call are compressed.
pub const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Takes out what is about one connection over HTTP/1.1 alone (RFC 9110, 7.6.1), and a length beside the encoding that
/// counts instead of it (RFC 9112, 6.3).
pub fn drop_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    let fixed = [
        CONNECTION,
        KEEP_ALIVE,
        PROXY_CONNECTION,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TE,
        TRANSFER_ENCODING,
        UPGRADE,
    ];
    for name in fixed {
        headers.remove(name);
    }
}

/// The time that is left, as gRPC writes it: at most eight digits.
pub fn grpc_timeout(deadline: Instant, now: Instant) -> HeaderValue {
    const MOST: u128 = 99_999_999;
    let left = deadline.saturating_duration_since(now).max(Duration::from_micros(1));
    let text = match left.as_micros() {
        micros if micros <= MOST => format!("{micros}u"),
        _ => format!("{}m", left.as_millis().min(MOST)),
    };
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("1m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_a_connection_does_not_pass() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, x-own"),
            ("x-own", "1"),
            ("te", "trailers"),
            ("keep-alive", "timeout=5"),
            ("x-kept", "2"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        drop_hop_by_hop(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-kept"]);
    }

    #[test]
    fn a_length_beside_another_encoding_does_not_pass() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("5"));
        drop_hop_by_hop(&mut headers);
        assert_eq!(headers[CONTENT_LENGTH], "5");
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        drop_hop_by_hop(&mut headers);
        assert!(headers.is_empty());
    }

    #[test]
    fn the_time_that_is_left_has_eight_digits_at_most() {
        let now = Instant::now();
        let left = |time| grpc_timeout(now + time, now);
        assert_eq!(left(Duration::from_millis(1500)), "1500000u");
        assert_eq!(left(Duration::from_secs(3600)), "3600000m");
        assert_eq!(grpc_timeout(now, now + Duration::from_secs(1)), "1u");
    }
}
