//! What decoding one input may cost, in processor time and in memory. Time is that of the calling thread, so that a busy
//! machine does not look like a slow decoder.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use peak_alloc::PeakAlloc;
use rustix::time::{ClockId, clock_gettime};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The allocator counts all threads: one input is decoded at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Time for any input, and for each of its bytes; what takes the square of them is far beyond that.
const TIME: Duration = Duration::from_millis(200);
const TIME_PER_BYTE: Duration = Duration::from_micros(10);

/// Bytes for any input, and for each of its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// For any input.
    pub fixed: usize,
    /// For each byte.
    pub per_byte: usize,
}

/// Decodes an input and panics where that takes more time or memory than it may. `decode` says how many bytes it asked
/// for and got beside; a column that is used again and grows may take the double.
pub fn within(memory: Memory, input: &[u8], decode: impl FnOnce() -> usize) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (began, before) = (processor_time(), ALLOCATOR.current_usage());
    ALLOCATOR.reset_peak_usage();
    let granted = decode();
    let (took, held) = (processor_time().saturating_sub(began), ALLOCATOR.peak_usage().saturating_sub(before));
    let length = input.len();
    let most = memory.fixed + memory.per_byte * length + 2 * granted;
    assert!(held <= most, "{length} bytes took {held} bytes of memory: the bound is {most}");
    let longest = TIME + TIME_PER_BYTE * length as u32;
    assert!(took <= longest, "{length} bytes took {took:?}: the bound is {longest:?}");
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}
