//! One line of the access log: a request as a JSON object.

use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use tidegate_codec::json::text::write_text;

use crate::metrics::ENDPOINTS;
use crate::telemetry::observation::Ended;
use crate::telemetry::refused_lines::LeftOut;
use crate::trace_context::to_hex;

/// Appends the line, with its end.
pub fn write(out: &mut Vec<u8>, ended: &Ended) {
    let facts = &ended.facts;
    begin_line(out, ended.clock_at(facts.came.at));
    text(out, "protocol", Some(ENDPOINTS[facts.came.endpoint as usize]));
    text(out, "method", Some(facts.came.method.as_str()));
    text(out, "path", Some(&facts.came.path));
    text(out, "model", ended.model());
    number(out, "version", ended.version());
    text(out, "signature", facts.served.as_ref().map(|served| served.signature.name.as_str()));
    number(out, "rows", facts.rows);
    text(out, "status", Some(ended.code().name()));
    number(out, "http_status", facts.http_status);
    number(out, "bytes_in", Some(facts.bytes_in));
    number(out, "bytes_out", Some(facts.bytes_out));
    number(out, "total_us", Some(ended.took().as_micros()));
    for (name, begin, end) in ended.stages() {
        number(out, &format!("{name}_us"), Some(between(begin, end).as_micros()));
    }
    text(out, "request_id", facts.id.as_ref().map(crate::request_id::RequestId::as_str));
    text(out, "trace_id", Some(&to_hex(&facts.trace.trace_id)));
    text(out, "span_id", Some(&to_hex(&facts.trace.span_id)));
    text(out, "peer", facts.came.peer.map(|peer| peer.to_string()).as_deref());
    if ended.slow {
        out.extend_from_slice(b",\"slow\":true");
    }
    out.extend_from_slice(b"}\n");
}

/// Appends a line that counts refused requests without lines of their own, with its end.
pub(super) fn write_left_out(out: &mut Vec<u8>, left_out: LeftOut) {
    begin_line(out, SystemTime::now());
    text(out, "peer", left_out.source.name().as_deref());
    number(out, "left_out", Some(left_out.lines));
    out.extend_from_slice(b"}\n");
}

fn begin_line(out: &mut Vec<u8>, time: SystemTime) {
    let time = DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Micros, true);
    out.extend_from_slice(b"{\"time\":\"");
    out.extend_from_slice(time.as_bytes());
    out.push(b'"');
}

fn between(begin: Instant, end: Instant) -> Duration {
    end.saturating_duration_since(begin)
}

fn text(out: &mut Vec<u8>, key: &str, value: Option<&str>) {
    let Some(value) = value else { return };
    begin(out, key);
    write_text(out, value);
}

fn number(out: &mut Vec<u8>, key: &str, value: Option<impl ToString>) {
    let Some(value) = value else { return };
    begin(out, key);
    out.extend_from_slice(value.to_string().as_bytes());
}

fn begin(out: &mut Vec<u8>, key: &str) {
    out.push(b',');
    write_text(out, key);
    out.push(b':');
}
