//! A request's identity: the client's `x-request-id` or a generated one, and the hash that decides on sampling, so that
//! the same request is sampled everywhere.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;

use crate::per_thread::{PARTS, PerThread};

/// Longest id that is taken over from a client.
pub const MAX_LENGTH: usize = 256;

/// An identifier of at most 256 visible characters.
#[derive(Clone, Debug)]
pub struct RequestId {
    text: Text,
    hash: u64,
}

/// Those that we make need no memory of their own.
#[derive(Clone, Debug)]
enum Text {
    Made([u8; 16]),
    Sent(HeaderValue),
}

impl RequestId {
    /// The client's id if it can be one, else a new one.
    pub fn choose(sent: Option<&HeaderValue>, source: &IdSource) -> RequestId {
        sent.and_then(RequestId::sent).unwrap_or_else(|| source.next())
    }

    /// An id that stands in a header, if it can be one.
    pub fn sent(value: &HeaderValue) -> Option<RequestId> {
        let can_be = !value.is_empty() && value.len() <= MAX_LENGTH && value.to_str().is_ok();
        can_be.then(|| RequestId { hash: hash(value.as_bytes()), text: Text::Sent(value.clone()) })
    }

    /// The id that an embedding program gave, if it can be one, else a new one.
    pub fn from_text(given: Option<&str>, source: &IdSource) -> RequestId {
        let sent = given.and_then(|text| HeaderValue::from_str(text).ok());
        RequestId::choose(sent.as_ref(), source)
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// Its characters, which are ASCII.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.text {
            Text::Made(digits) => digits,
            Text::Sent(value) => value.as_bytes(),
        }
    }

    /// For the answer; marked so that HPACK does not spend its table on it.
    pub fn header(&self) -> HeaderValue {
        let mut value = match &self.text {
            Text::Made(digits) => HeaderValue::from_bytes(digits).unwrap_or_else(|_| HeaderValue::from_static("0")),
            Text::Sent(value) => value.clone(),
        };
        value.set_sensitive(true);
        value
    }

    /// Its hash, the same on every machine.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Whether this id falls into a share of all ids.
    pub fn sampled(&self, share: Share) -> bool {
        share.covers(self.hash)
    }
}

/// A share of all request ids, as a bound on their hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share(u64);

impl Share {
    /// From 0.0, none, to 1.0, all.
    pub fn new(fraction: f64) -> Option<Share> {
        if !(0.0..=1.0).contains(&fraction) {
            return None;
        }
        Some(Share(if fraction >= 1.0 { u64::MAX } else { (fraction * 2f64.powi(64)) as u64 }))
    }

    /// Whether a hash falls into it.
    pub fn covers(self, hash: u64) -> bool {
        self.0 != 0 && (self.0 == u64::MAX || hash < self.0)
    }

    /// Whether it is empty.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// FNV-1a over the id's bytes with splitmix64's finish: the same on every machine and in every release.
pub fn hash(id: &[u8]) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325u64;
    for byte in id {
        state = (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    mix(state)
}

/// splitmix64's finish.
pub fn mix(mut state: u64) -> u64 {
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// Makes ids that no other process makes: 16 hexadecimal digits from a random start.
#[derive(Debug)]
pub struct IdSource {
    states: PerThread<AtomicU64>,
}

/// From one id to the next: odd, so that all 2^64 numbers come before one comes again.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Threads begin so many ids after each other.
const APART: u64 = u64::MAX / PARTS as u64;

impl Default for IdSource {
    fn default() -> IdSource {
        let start = RandomState::new().hash_one(std::process::id());
        let of_part = |part| start.wrapping_add(STEP.wrapping_mul(APART.wrapping_mul(part as u64)));
        IdSource { states: PerThread::new(|part| AtomicU64::new(of_part(part))) }
    }
}

impl IdSource {
    fn next(&self) -> RequestId {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let number = mix(self.states.mine().fetch_add(STEP, Ordering::Relaxed));
        let mut text = [0u8; 16];
        for (at, digit) in text.iter_mut().enumerate() {
            *digit = DIGITS[(number >> (60 - 4 * at)) as usize & 15];
        }
        RequestId { hash: hash(&text), text: Text::Made(text) }
    }
}
