//! The types that plain objects come and go in, as `Content-Type` and `Accept` say.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};

/// JSON, or MessagePack under one of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// `application/json`.
    Json,
    /// By the name that its client uses.
    MessagePack(&'static str),
}

const JSON: &str = "application/json";
const MESSAGE_PACK: [&str; 3] = ["application/msgpack", "application/x-msgpack", "application/vnd.msgpack"];

/// What a request may be, and ask for.
pub const KNOWN: &str = "application/json or application/msgpack";

impl MediaType {
    fn named(name: &[u8]) -> Option<MediaType> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let packed = MESSAGE_PACK.into_iter().find(|known| is(known)).map(MediaType::MessagePack);
        if is(JSON) { Some(MediaType::Json) } else { packed }
    }

    /// Of a request's body; JSON where it does not say. The error is what it says instead.
    pub fn sent(headers: &HeaderMap) -> Result<MediaType, String> {
        let Some(sent) = headers.get(CONTENT_TYPE) else { return Ok(MediaType::Json) };
        let name = sent.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        MediaType::named(name).ok_or_else(|| String::from_utf8_lossy(sent.as_bytes()).into_owned())
    }

    /// Of the answer: the type that is wanted most, of equals the first, and where all are welcome that of the request. The
    /// error is what is wanted instead.
    pub fn wanted(headers: &HeaderMap, sent: MediaType) -> Result<MediaType, String> {
        let all: Vec<&[u8]> = headers.get_all(ACCEPT).iter().map(HeaderValue::as_bytes).collect();
        if all.is_empty() {
            return Ok(sent);
        }
        let mut best: Option<(f32, MediaType)> = None;
        for range in all.iter().flat_map(|value| value.split(|byte| *byte == b',')) {
            let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let found = match parts.next().unwrap_or_default() {
                b"*/*" | b"application/*" => Some(sent),
                name => MediaType::named(name),
            };
            let Some(found) = found else { continue };
            let weight = parts.find_map(|part| part.strip_prefix(b"q=")).map_or(Some(1.0), weight);
            let better = |weight: &f32| *weight > best.map_or(0.0, |(most, _)| most);
            if let Some(weight) = weight.filter(better) {
                best = Some((weight, found));
            }
        }
        best.map(|(_, found)| found).ok_or_else(|| String::from_utf8_lossy(&all.join(&b", "[..])).into_owned())
    }

    /// As a header.
    pub fn header(self) -> HeaderValue {
        match self {
            MediaType::Json => HeaderValue::from_static(JSON),
            MediaType::MessagePack(name) => HeaderValue::from_static(name),
        }
    }
}

fn weight(text: &[u8]) -> Option<f32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
