//! The header `traceparent`: any value is a parent or none, and what goes on from a parent is one too.

use tidegate_engine::trace_context::{Parent, TraceIds, to_hex};

use crate::bounds::{self, Memory};

/// A parent holds no memory; what is sent on is one line.
const MEMORY: Memory = Memory { fixed: 4096, per_byte: 0 };

/// Takes any bytes.
pub fn run(bytes: &[u8]) {
    bounds::within(MEMORY, bytes, || {
        let ids = TraceIds::default();
        let Some(parent) = Parent::parse(bytes) else { return 0 };
        assert_eq!(to_hex(&parent.trace_id).as_bytes(), &bytes[3..35], "the trace is the one that was sent");
        let trace = ids.begin(Some(parent), |_| false);
        let sent = Parent::parse(trace.header().as_bytes());
        let expected = Parent { span_id: trace.span_id, ..parent };
        assert_eq!(sent, Some(expected), "what is sent on is in the same trace");
        0
    });
}
