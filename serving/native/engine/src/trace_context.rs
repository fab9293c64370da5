//! W3C Trace Context (<https://www.w3.org/TR/trace-context/>): the header `traceparent`, and new identities.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;

use crate::request_id::mix;

/// The header.
const TRACEPARENT: &str = "traceparent";

/// Length of a `traceparent` of version 00.
const LENGTH: usize = 55;
const SAMPLED: u8 = 1;

/// A trace's identity.
pub type TraceId = [u8; 16];

/// What a caller says of the trace that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The trace.
    pub trace_id: TraceId,
    /// The caller's span.
    pub span_id: [u8; 8],
    /// Whether the caller records it.
    pub sampled: bool,
}

impl Parent {
    /// What headers or metadata say; none where they say it twice.
    pub fn of(headers: &HeaderMap) -> Option<Parent> {
        let mut sent = headers.get_all(TRACEPARENT).iter();
        match (sent.next(), sent.next()) {
            (Some(only), None) => Parent::parse(only.as_bytes()),
            _ => None,
        }
    }

    /// Reads the value of a `traceparent` header; none where it is not one, after which a new trace begins. Of versions
    /// that do not exist yet it takes what version 00 has.
    pub fn parse(value: &[u8]) -> Option<Parent> {
        let (head, tail) = value.split_at_checked(LENGTH)?;
        let dashes = [2, 35, 52].iter().all(|at| head[*at] == b'-');
        let [version] = hex(&head[..2])?;
        let ends = match version {
            0xff => false,
            0 => tail.is_empty(),
            _ => tail.first().is_none_or(|next| *next == b'-'),
        };
        let (trace_id, span_id, [flags]) = (hex(&head[3..35])?, hex(&head[36..52])?, hex(&head[53..])?);
        let some = trace_id != [0; 16] && span_id != [0; 8];
        (dashes && ends && some).then_some(Parent { trace_id, span_id, sampled: flags & SAMPLED != 0 })
    }
}

/// The trace that the client of a request with these headers says it belongs to.
pub fn trace_of(headers: &HeaderMap) -> Option<TraceId> {
    Parent::of(headers).map(|parent| parent.trace_id)
}

/// So many bytes of lower-case hexadecimal digits.
fn hex<const BYTES: usize>(digits: &[u8]) -> Option<[u8; BYTES]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; BYTES];
    if digits.len() != 2 * BYTES {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// Bytes as lower-case hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// The server's own span of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The trace: its caller's, or a new one.
    pub trace_id: [u8; 16],
    /// The server's span.
    pub span_id: [u8; 8],
    /// The caller's span, where there is one.
    pub parent: Option<[u8; 8]>,
    /// Whether it is recorded.
    pub sampled: bool,
}

impl Trace {
    /// The lower half of the trace's id, by which OpenTelemetry samples.
    pub fn low(&self) -> u64 {
        u128::from_be_bytes(self.trace_id) as u64
    }

    /// The value of a `traceparent` header for whoever goes on from here.
    pub fn header(&self) -> String {
        format!("00-{}-{}-{:02x}", to_hex(&self.trace_id), to_hex(&self.span_id), u8::from(self.sampled))
    }
}

/// Makes identities from two random starts.
#[derive(Debug)]
pub struct TraceIds {
    state: AtomicU64,
    other: u64,
}

impl Default for TraceIds {
    fn default() -> TraceIds {
        let random = RandomState::new();
        TraceIds { state: AtomicU64::new(random.hash_one(std::process::id())), other: random.hash_one("trace") }
    }
}

impl TraceIds {
    /// The span of a request that came with this parent, or of a trace that begins with it.
    pub fn begin(&self, parent: Option<Parent>, sampled: impl FnOnce(u64) -> bool) -> Trace {
        let span_id = self.next().to_be_bytes();
        if let Some(Parent { trace_id, span_id: parent, sampled }) = parent {
            return Trace { trace_id, span_id, parent: Some(parent), sampled };
        }
        let (high, low) = (self.next() ^ self.other, self.next());
        let trace_id = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
        Trace { trace_id, span_id, parent: None, sampled: sampled(low) }
    }

    /// Never 0, which means none.
    fn next(&self) -> u64 {
        mix(self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_example_of_the_specification_is_read_and_written() {
        let parent = Parent::parse(GOOD.as_bytes()).expect("a parent");
        assert_eq!((to_hex(&parent.trace_id), parent.sampled), (GOOD[3..35].to_owned(), true));
        let trace = TraceIds::default().begin(Some(parent), |_| unreachable!("the caller has decided"));
        assert_eq!((trace.trace_id, trace.parent), (parent.trace_id, Some(parent.span_id)));
        let sent = Parent::parse(trace.header().as_bytes()).expect("what is sent can be read");
        assert_eq!((sent.trace_id, sent.span_id, sent.sampled), (trace.trace_id, trace.span_id, true));
    }

    #[test]
    fn what_is_no_parent_begins_a_new_trace() {
        let later = [GOOD.replacen("00", "01", 1), GOOD.replacen("00", "cc", 1) + "-what-comes"];
        assert!(later.iter().all(|later| Parent::parse(later.as_bytes()).is_some()));
        let bad = [
            String::new(),
            GOOD.replacen("00", "ff", 1),
            GOOD.replacen("00", "0", 1),
            GOOD.to_uppercase(),
            GOOD.replace('-', "_"),
            format!("{GOOD}-more"),
            GOOD.replacen("00", "01", 1) + "more",
            GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            GOOD.replace("00f067aa0ba902b7", &"0".repeat(16)),
            GOOD.replace("4bf9", "4bg9"),
            GOOD[..54].to_owned(),
            GOOD.replace("-01", "-0x"),
        ];
        for bad in &bad {
            assert_eq!(Parent::parse(bad.as_bytes()), None, "{bad}");
        }
        let ids = TraceIds::default();
        let (one, two) = (ids.begin(None, |_| true), ids.begin(None, |_| false));
        assert!(one.trace_id != two.trace_id && one.span_id != two.span_id && one.sampled && !two.sampled);
        assert!(Parent::parse(one.header().as_bytes()).is_some() && one.parent.is_none());
    }
}
