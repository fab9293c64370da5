//! Large blocks of memory that were freed and wait for the next batch: to have the system map and fill a new one, page by
//! page, takes longer than to write into it. There are few of them, and who is not wanted for a while goes back.

use std::sync::Mutex;

use crate::sync::lock;

/// So many are kept at most, and so many bytes.
const BLOCKS: usize = 8;
const MOST_BYTES: usize = 64 << 20;

/// The largest that is worth keeping.
pub const LARGEST: usize = 32 << 20;

/// Where a block is, and its size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Of its first byte.
    pub address: usize,
    /// A power of two.
    pub bytes: usize,
}

/// The blocks of a process. It asks no allocator for anything, so that one may ask it.
#[derive(Debug)]
pub struct Spare(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Who gives back what rests; without any nothing is kept.
    keepers: usize,
    most: usize,
    bytes: usize,
    count: usize,
    /// The last one was put here last.
    blocks: [(Block, Rest); BLOCKS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Fresh,
    Long,
}

/// While it lives, blocks are kept.
#[derive(Debug)]
pub struct Keeping(&'static Spare);

impl Drop for Keeping {
    fn drop(&mut self) {
        lock(&self.0.0).keepers -= 1;
    }
}

/// Those of this process, as its allocator has them.
pub static SPARE: Spare = Spare::new();

impl Spare {
    /// Nothing, and nothing is kept.
    pub const fn new() -> Spare {
        let none = (Block { address: 0, bytes: 0 }, Rest::Fresh);
        Spare(Mutex::new(State { keepers: 0, most: 0, bytes: 0, count: 0, blocks: [none; BLOCKS] }))
    }

    /// Keeps blocks of so many bytes in all, or of 64 MB where that is less. Whoever asks for it calls `rested` every now and
    /// then, and once more after the guard is dropped.
    pub fn keep(&'static self, most: usize) -> Keeping {
        let mut state = lock(&self.0);
        state.keepers += 1;
        state.most = most.min(MOST_BYTES);
        Keeping(self)
    }

    /// A block of exactly this size, the one that was put here last.
    pub fn take(&self, bytes: usize) -> Option<Block> {
        let mut state = lock(&self.0);
        let at = state.blocks[..state.count].iter().rposition(|(block, _)| block.bytes == bytes)?;
        Some(state.remove(at))
    }

    /// Keeps a block. False where there is no place for it.
    pub fn put(&self, block: Block) -> bool {
        let mut state = lock(&self.0);
        let fits = state.keepers > 0 && state.count < BLOCKS && state.bytes + block.bytes <= state.most;
        if fits {
            let end = state.count;
            state.blocks[end] = (block, Rest::Fresh);
            state.count += 1;
            state.bytes += block.bytes;
        }
        fits
    }

    /// One that nobody wanted between the two latest calls of `look`, or any where none is to be kept: it is the caller's.
    pub fn rested(&self) -> Option<Block> {
        let mut state = lock(&self.0);
        let all = state.keepers == 0;
        let at = state.blocks[..state.count].iter().position(|(_, rest)| all || *rest == Rest::Long)?;
        Some(state.remove(at))
    }

    /// Those that are here rest from now on, until they are wanted.
    pub fn look(&self) {
        let mut state = lock(&self.0);
        let count = state.count;
        state.blocks[..count].iter_mut().for_each(|(_, rest)| *rest = Rest::Long);
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> usize {
        lock(&self.0).bytes
    }
}

impl Default for Spare {
    fn default() -> Spare {
        Spare::new()
    }
}

impl State {
    fn remove(&mut self, at: usize) -> Block {
        let (block, _) = self.blocks[at];
        self.blocks.copy_within(at + 1..self.count, at);
        self.count -= 1;
        self.bytes -= block.bytes;
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    fn block(address: usize, bytes: usize) -> Block {
        Block { address, bytes }
    }

    #[test]
    fn a_block_comes_back_for_exactly_its_size_the_last_one_first() {
        static SPARE: Spare = Spare::new();
        let _keeping = SPARE.keep(usize::MAX);
        assert!([block(1, 8 * MB), block(2, 16 * MB), block(3, 8 * MB)].into_iter().all(|block| SPARE.put(block)));
        assert_eq!(SPARE.bytes(), 32 * MB);
        let taken: Vec<_> = [8, 8, 8, 16].into_iter().map(|size| SPARE.take(size * MB)).collect();
        assert_eq!(taken, [Some(block(3, 8 * MB)), Some(block(1, 8 * MB)), None, Some(block(2, 16 * MB))]);
        assert_eq!(SPARE.bytes(), 0);
    }

    #[test]
    fn no_more_is_kept_than_was_asked_for_and_nothing_while_nobody_asks() {
        static SPARE: Spare = Spare::new();
        assert!(!SPARE.put(block(1, 8 * MB)), "nobody would give it back");
        let keeping = SPARE.keep(20 * MB);
        assert!(SPARE.put(block(1, 16 * MB)));
        assert!(!SPARE.put(block(2, 8 * MB)), "more bytes than there may be");
        assert!((0..BLOCKS).map(|at| SPARE.put(block(at, 1))).eq((0..BLOCKS).map(|at| at + 1 < BLOCKS)));
        drop(keeping);
        let left = std::iter::from_fn(|| SPARE.rested()).count();
        assert_eq!((left, SPARE.bytes()), (BLOCKS, 0), "all go back once nobody asks");
        let _larger = SPARE.keep(usize::MAX);
        assert!((0..BLOCKS).map(|at| SPARE.put(block(at, 32 * MB))).eq((0..BLOCKS).map(|at| at < 2)));
    }

    #[test]
    fn what_nobody_wants_for_a_while_goes_back() {
        static SPARE: Spare = Spare::new();
        let _keeping = SPARE.keep(usize::MAX);
        assert!(SPARE.put(block(1, 8 * MB)) && SPARE.put(block(2, 8 * MB)));
        assert_eq!(SPARE.rested(), None, "they have just come");
        SPARE.look();
        let used = SPARE.take(8 * MB).unwrap();
        assert!(SPARE.put(used));
        assert_eq!((SPARE.rested(), SPARE.rested()), (Some(block(1, 8 * MB)), None), "the other one was used since");
        SPARE.look();
        assert_eq!(SPARE.rested(), Some(used));
    }
}
