//! Random numbers that are the same at each run, and bytes damaged by them.

/// xorshift64*, for tests that try many random inputs and must do the same each time.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A damaged copy: some bytes changed, inserted, removed or cut off.
    pub fn damage(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = bytes.to_vec();
        for _ in 0..=self.below(4) {
            if out.is_empty() {
                break;
            }
            let at = self.below(out.len());
            match self.below(5) {
                0 => out[at] = self.next() as u8,
                1 => out[at] ^= 1 << self.below(8),
                2 => out.insert(at, self.next() as u8),
                3 => drop(out.remove(at)),
                _ => out.truncate(at),
            }
        }
        out
    }
}
