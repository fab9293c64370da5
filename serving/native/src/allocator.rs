//! The extension's allocator: mimalloc for what is small, the system for what is large; and what it and glibc, which models
//! allocate from, keep and give back.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::os::raw::{c_int, c_long};
use std::ptr::null_mut;

use mimalloc::MiMalloc;
use tidegate_engine::disposal::LARGE_BLOCK;
use tidegate_engine::spare::{Block, LARGEST, SPARE};

/// Blocks of LARGE_BLOCK bytes and more come from the system and go back to it, but for a few that wait for the next batch.
/// Those are not for whoever wants zeros: the thread that serves all clients would have to write them. mimalloc would ask the
/// system for each at an address where there never was one, and keep 4 KiB about each address for ever.
pub(crate) struct Allocator;

/// Of the system's memory; blocks that want more than a page's alignment are rare, and mimalloc's.
const ALIGNED: usize = 4096;

/// What is mapped for a block of so many bytes: a power of two, so that one of a size near by may have it next. Pages that
/// nobody writes take no memory.
fn mapped(size: usize) -> usize {
    if size > LARGEST { size } else { size.next_power_of_two() }
}

fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE_BLOCK && layout.align() <= ALIGNED
}

// SAFETY: a layout alone says who has a block, so that it goes back to where it came from; both give memory of at least
// that size and alignment, or null.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        if is_large(layout) { spare_or_new(layout.size()) } else { unsafe { MiMalloc.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises; what the system maps is zero.
        if is_large(layout) { map(mapped(layout.size())) } else { unsafe { MiMalloc.alloc_zeroed(layout) } }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_large(layout) {
            let freed = Block { address: block.expose_provenance(), bytes: mapped(layout.size()) };
            if freed.bytes > LARGEST || !SPARE.put(freed) {
                // SAFETY: the caller promises that it was mapped for this size and is not used any more.
                unsafe { unmap(freed) };
            }
        } else {
            // SAFETY: as the caller promises.
            unsafe { MiMalloc.dealloc(block, layout) };
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size is none that overflows where it is rounded up to the alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (is_large(layout), is_large(wanted)) {
            // SAFETY: as the caller promises.
            (false, false) => unsafe { MiMalloc.realloc(block, layout, size) },
            #[cfg(target_os = "linux")]
            // SAFETY: the caller promises that the block was mapped for this size.
            (true, true) => unsafe { remap(block, mapped(layout.size()), mapped(size)) },
            // SAFETY: both blocks are as large as what is copied, and the old one is not used any more.
            _ => unsafe {
                let fresh = self.alloc(wanted);
                if !fresh.is_null() {
                    fresh.copy_from_nonoverlapping(block, layout.size().min(size));
                    self.dealloc(block, layout);
                }
                fresh
            },
        }
    }
}

/// A block that was freed, or a new one.
fn spare_or_new(size: usize) -> *mut u8 {
    match SPARE.take(mapped(size)) {
        Some(block) => std::ptr::with_exposed_provenance_mut(block.address),
        None => map(mapped(size)),
    }
}

/// Gives a block back to the system.
///
/// # Safety
/// It came from `map` or `remap` with its size, and nobody uses it any more.
unsafe fn unmap(block: Block) {
    // SAFETY: as the caller promises.
    unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(block.address), block.bytes) };
}

/// Zeros straight from the system; null where it has no more.
fn map(size: usize) -> *mut u8 {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: asks for new memory, wherever there is room.
    let block = unsafe { libc::mmap(null_mut(), size, access, flags, -1, 0) };
    if block == libc::MAP_FAILED { null_mut() } else { block.cast() }
}

/// Lengthens or shortens a block, which may lie elsewhere then; null where the system has no more.
#[cfg(target_os = "linux")]
unsafe fn remap(block: *mut u8, size: usize, wanted: usize) -> *mut u8 {
    if size == wanted {
        return block;
    }
    // SAFETY: the caller promises that it came from `map` with this size.
    let block = unsafe { libc::mremap(block.cast(), size, wanted, libc::MREMAP_MAYMOVE) };
    if block == libc::MAP_FAILED { null_mut() } else { block.cast() }
}

/// `mi_option_purge_delay` of mimalloc 3.
const PURGE_DELAY: c_int = 15;

/// What is kept goes back in `purge_freed` alone: not on a thread that asks for memory, which has others to serve.
const NEVER: c_long = c_long::MAX >> 16;

unsafe extern "C" {
    fn mi_option_set(option: c_int, value: c_long);
    fn mi_collect(force: bool);
}

/// Has mimalloc give nothing back by itself.
pub(crate) fn purge_when_told() {
    // SAFETY: the option exists in the linked version, which checks its range; any thread may set it at any time.
    unsafe { mi_option_set(PURGE_DELAY, NEVER) };
}

/// Gives the system all memory back that was freed by any thread and is not in use again, large blocks where nobody wanted
/// them since the last time.
pub(crate) fn purge_freed() {
    while let Some(block) = SPARE.rested() {
        // SAFETY: `dealloc` put it there, and it is nobody's now.
        unsafe { unmap(block) };
    }
    SPARE.look();
    // SAFETY: any thread may collect at any time.
    unsafe { mi_collect(true) };
}

/// Lets other threads, `purge_freed` and the system have what this thread keeps of memory that was freed.
pub(crate) fn share_freed() {
    // SAFETY: as above.
    unsafe { mi_collect(false) };
    let largest = LARGEST_ARRAY.take();
    if largest > 0 {
        return_top(largest);
    }
}

/// Arrays of fewer bytes are not worth a look; larger ones come from the system and go back to it by themselves.
const NOTED: std::ops::RangeInclusive<usize> = 1 << 20..=31 << 20;

/// How much is looked through at most: as much as a heap of glibc's has.
const LOOKED_THROUGH: usize = 64 << 20;

thread_local! {
    /// The largest array that a model gave this thread lately, among those whose memory glibc may keep.
    static LARGEST_ARRAY: Cell<usize> = const { Cell::new(0) };
}

/// A model gave this thread an array of so many bytes.
pub(crate) fn note_array(bytes: usize) {
    if NOTED.contains(&bytes) {
        LARGEST_ARRAY.set(LARGEST_ARRAY.get().max(bytes));
    }
}

/// Gives the system back what lies free at the end of this thread's heap in glibc, which `malloc_trim` leaves there unless
/// it is the main thread's. Arrays of that size were freed lately, so that blocks of that size come from there.
fn return_top(size: usize) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let mut blocks = Vec::new();
        while blocks.len() < LOOKED_THROUGH / size {
            // SAFETY: any size may be asked for; what comes is checked, and freed below.
            let block = unsafe { libc::malloc(size) };
            if block.is_null() {
                break;
            }
            blocks.push(block);
            if !forget_pages(block.cast(), size) {
                break;
            }
        }
        // SAFETY: each came from malloc, and nobody else knows it.
        blocks.into_iter().for_each(|block| unsafe { libc::free(block) });
    }
}

/// Has the system take the pages that lie within a block. False where none of them is there.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn forget_pages(block: *mut u8, size: usize) -> bool {
    // SAFETY: asks for a number alone.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let before = block.align_offset(page);
    let pages = size.saturating_sub(before) / page;
    let mut there = vec![0_u8; pages];
    // SAFETY: whole pages within a block of this size, which nobody else uses and whose content nobody needs; `there`
    // has room for one byte each.
    unsafe {
        let start = block.add(before).cast();
        libc::mincore(start, pages * page, there.as_mut_ptr()) == 0
            && there.iter().any(|page| page & 1 != 0)
            && libc::madvise(start, pages * page, libc::MADV_DONTNEED) == 0
    }
}

/// Gives the system back what models freed, where their allocator is that of glibc.
pub(crate) fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: any thread may trim at any time.
    unsafe {
        libc::malloc_trim(0)
    };
}
