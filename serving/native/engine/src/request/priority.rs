//! The priority that a request asks for: a parameter of the Open Inference Protocol, or a header or metadata of any request.

use tidegate_codec::status::Status;

use crate::batching::Queue;
use crate::serving_map::KeyValue;

/// Where a request of any protocol says its priority: 1 is the highest, 0 the model's default.
pub const PRIORITY_HEADER: &str = "x-tidegate-priority";

/// The place of its level among those of its queue, 0 for the highest; `asked` is what its message asks for.
pub fn level(queue: &Queue, from: &KeyValue<'_>, asked: u64) -> Result<usize, Status> {
    let batching = queue.limits();
    if batching.priority_levels < 2 {
        return Ok(0);
    }
    if queue.signature().sequences {
        // None of a sequence may pass those before it.
        return Ok(batching.level(0));
    }
    let header = match from {
        KeyValue::In(headers) => headers.get(PRIORITY_HEADER),
        KeyValue::Is(_) => None,
    };
    let Some(header) = header.filter(|_| asked == 0) else { return Ok(batching.level(asked)) };
    let number = header.to_str().ok().and_then(|text| text.parse().ok());
    number.map(|number| batching.level(number)).ok_or_else(|| {
        Status::invalid(format!("{PRIORITY_HEADER} is {header:?}: send a whole number, 1 for the highest priority"))
    })
}
