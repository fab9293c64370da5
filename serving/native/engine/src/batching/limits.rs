//! Batching parameters: when a batch closes, how long a queue may grow, how many threads empty it.

use std::sync::Arc;

use tidegate_codec::signatures::TensorSpec;

/// What the answers of one batch take at most, where the signature says how large they are and one row takes no more. A
/// model in Python keeps all others from running for about as long as it takes to write them.
pub(crate) const OUTPUT_BYTES: usize = 16 << 20;

/// Levels of priority, at most.
pub const PRIORITY_LEVELS: usize = 8;

/// Tiers of requests: of each level, those of connections with little under way come before the others.
pub(super) const TIERS: usize = 2 * PRIORITY_LEVELS;

/// When a batch closes and how long its queue may grow.
#[derive(Clone, Debug)]
pub struct Batching {
    /// Closes a batch.
    pub max_batch_rows: usize,
    /// Waits that long for more, if above zero.
    pub timeout_us: u64,
    /// Beyond it a request is refused, or waits.
    pub max_queued_rows: usize,
    /// Whether requests for which the queue has no place wait until their deadline. They are refused else.
    pub waits_when_full: bool,
    /// Executor threads, at most; they come with the requests.
    pub concurrency: usize,
    /// The only numbers of rows that the model runs, ascending; empty for any.
    pub allowed_batch_sizes: Arc<[usize]>,
    /// Whether requests whose inputs differ in their inner dimensions share batches, filled up to the largest.
    pub pad_variable_length_inputs: bool,
    /// Levels of priority that requests may ask for, 1 the highest; 0 or 1 for none.
    pub priority_levels: usize,
    /// The level of requests that ask for none, or for one that there is not; 0 for the lowest.
    pub default_priority_level: usize,
}

impl Batching {
    /// Says which value cannot be.
    pub fn check(&self) -> Result<(), String> {
        let limits = [
            ("max_batch_rows", self.max_batch_rows),
            ("max_queued_rows", self.max_queued_rows),
            ("concurrency", self.concurrency),
        ];
        let (levels, default) = (self.priority_levels, self.default_priority_level);
        if levels > PRIORITY_LEVELS || default > levels {
            return Err(format!(
                "priority_levels are {levels} and default_priority_level is {default}: use at most {PRIORITY_LEVELS} \
                 levels, and one of them"
            ));
        }
        match limits.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(format!("{name} is 0: it must be at least 1")),
            None => self.check_sizes(),
        }
    }

    /// The same with batches that are closed before their answers are very large: they take the model's memory, ours, and
    /// once more as they are written.
    pub fn bounded_by(&self, outputs: &[TensorSpec]) -> Batching {
        let bytes = |spec: &TensorSpec| {
            let inner = spec.fixed_inner().unwrap_or_default();
            inner.iter().fold(spec.dtype.size(), |bytes, dim| bytes.saturating_mul(*dim))
        };
        let row = outputs.iter().map(bytes).fold(1, usize::saturating_add);
        Batching { max_batch_rows: self.max_batch_rows.min(OUTPUT_BYTES / row).max(1), ..self.clone() }
    }

    /// The place of a level among all, 0 for the highest, where a client asked for that one.
    pub fn level(&self, asked: u64) -> usize {
        let known = usize::try_from(asked).ok().filter(|level| (1..=self.priority_levels).contains(level));
        let default = if self.default_priority_level > 0 { self.default_priority_level } else { self.priority_levels };
        known.unwrap_or(default).saturating_sub(1)
    }

    fn check_sizes(&self) -> Result<(), String> {
        let (sizes, most) = (&*self.allowed_batch_sizes, self.max_batch_rows);
        if sizes.first() == Some(&0) || !sizes.is_sorted_by(|left, right| left < right) {
            return Err(format!("allowed_batch_sizes are {sizes:?}: they must be above 0 and ascend"));
        }
        match sizes.last() {
            Some(last) if *last != most => {
                Err(format!("allowed_batch_sizes end at {last}, max_batch_rows is {most}: they must be equal"))
            }
            _ => Ok(()),
        }
    }
}
