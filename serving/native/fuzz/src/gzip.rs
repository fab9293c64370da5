//! Compressed messages: the first byte names the coding, and the rest is inflated within a budget.

use std::sync::{Arc, LazyLock};

use tidegate_engine::memory::Memory as Budget;
use tidegate_plane::endpoints::compression::inflate;

use crate::bounds::{self, Memory};

/// The largest plain message, and all that may be held; a share of it is one connection's.
const LIMIT: usize = 1 << 20;
const BUDGET: usize = 2 << 20;

/// The tables and the window of one decoder, and the names in a header.
const MEMORY: Memory = Memory { fixed: 256 << 10, per_byte: 4 };

const CODINGS: [&str; 4] = ["gzip", "deflate", "x-gzip", "br"];

static MEMORY_OF_REQUESTS: LazyLock<Arc<Budget>> = LazyLock::new(|| Arc::new(Budget::new(BUDGET, LIMIT)));

/// Inflates the bytes; what comes of them is within the limit, was counted before it was there, and is given back.
pub fn run(input: &[u8]) {
    let Some((coding, data)) = input.split_first() else { return };
    let coding = CODINGS[usize::from(*coding) % CODINGS.len()];
    let budget = &*MEMORY_OF_REQUESTS;
    bounds::within(MEMORY, input, || {
        let mut counted = budget.of_connection().reservation();
        let Ok(Some(plain)) = inflate(coding, data, LIMIT, &mut || false, &mut counted) else {
            // What it took may have been given back by now.
            return LIMIT;
        };
        let (length, counted) = (plain.len(), counted.bytes());
        assert!(length <= LIMIT.min(counted), "{length} bytes, counted {counted}");
        counted
    });
    assert_eq!(budget.used(), 0, "all is given back");
}
