//! The bounded batch queue of one signature: what waits in it, lane by lane, and what an executor takes next.
//! An open batch closes when the sockets are idle, when it is full, or when it has waited long enough.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use arc_swap::ArcSwap;
use tidegate_codec::signatures::{Signature, TensorSpec};
use tidegate_codec::tensors::{ColumnPool, Lease};

use crate::batching::batch::Batch;
use crate::batching::executor_pool::ExecutorPool;
use crate::batching::lane::{Guarded, Lane, Ripe};
use crate::batching::limits::{Batching, TIERS};
use crate::batching::search::Where;
use crate::batching::served_signature::ServedSignature;
use crate::batching::service_time::ServiceTime;
use crate::batching::waiting::{Count, Place, Waiting};
use crate::per_thread::Apart;
use crate::sync::lock;

/// Of so many batches that lower tiers wait for, one is the oldest whatever its tier.
const FAIR: usize = 8;

/// What an executor finds.
pub enum NextBatch {
    /// A closed batch.
    Batch(Box<Batch>),
    /// Nothing yet; an open batch closes at this time.
    Later(Instant),
    /// Nothing.
    Nothing,
}

/// One lane per I/O thread.
pub(super) type Lanes = Box<[Apart<Guarded>]>;

/// What waits to be run.
#[derive(Debug)]
pub struct Queue {
    pub(super) batching: ArcSwap<Batching>,
    pub(super) lanes: Lanes,
    used_lanes: AtomicUsize,
    /// Those of lower tiers; none before a request is of one.
    lower: [OnceLock<Lanes>; TIERS - 1],
    /// Whether a request was ever of one.
    has_lower: AtomicBool,
    /// Batches in a row that were taken while lower tiers waited.
    passed_over: AtomicUsize,
    /// Rows of lower tiers that wait.
    lower_rows: [AtomicUsize; TIERS - 1],
    /// Where `take` looks first: every lane has its turn.
    next_lane: Apart<AtomicUsize>,
    /// Every request of every lane writes it, and nothing else that they read is beside it.
    pub(super) queued_rows: Apart<AtomicUsize>,
    /// Those of them that the limit does not count: a request of more rows than the limit counts as one batch.
    pub(super) excess_rows: AtomicUsize,
    /// How long batches take.
    pub service: ServiceTime,
    /// Whether an answer has shown that requests must not share a run.
    alone: AtomicBool,
    /// Whether the request that was released last had no other beside it.
    one_by_one: AtomicBool,
    pub(super) columns: Arc<ColumnPool>,
    pub(super) fixed_shapes: Option<Arc<[Vec<usize>]>>,
    /// Whose requests wait here.
    pub served: Arc<ServedSignature>,
    /// The threads that empty it.
    pub executors: Arc<ExecutorPool>,
}

impl Queue {
    /// An empty queue with one lane per I/O thread.
    pub fn new(served: Arc<ServedSignature>, executors: Arc<ExecutorPool>, batching: &Batching, lanes: usize) -> Queue {
        let inputs = &served.signature.inputs;
        let fixed = inputs.iter().map(TensorSpec::fixed_inner).collect::<Option<Vec<_>>>();
        let queue = Queue {
            batching: ArcSwap::from_pointee(batching.bounded_by(&served.signature.outputs)),
            lanes: make_lanes(lanes),
            used_lanes: AtomicUsize::new(0),
            lower: Default::default(),
            has_lower: AtomicBool::new(false),
            passed_over: AtomicUsize::new(0),
            lower_rows: Default::default(),
            next_lane: Apart::default(),
            queued_rows: Apart::default(),
            excess_rows: AtomicUsize::new(0),
            service: ServiceTime::default(),
            alone: AtomicBool::new(false),
            one_by_one: AtomicBool::new(false),
            columns: ColumnPool::new(inputs.iter().map(|spec| spec.dtype).collect()),
            fixed_shapes: fixed.map(Into::into),
            served,
            executors,
        };
        queue.tell_limits();
        queue
    }

    /// What it takes and gives.
    #[inline]
    pub fn signature(&self) -> &Signature {
        &self.served.signature
    }

    /// Its limits, for a look.
    pub(crate) fn limits(&self) -> impl Deref<Target = Arc<Batching>> {
        self.batching.load()
    }

    /// Its limits.
    pub fn batching(&self) -> Arc<Batching> {
        self.batching.load_full()
    }

    /// Takes over other limits. A batch that is larger already goes as it is.
    pub fn tune(&self, batching: &Batching) {
        self.batching.store(Arc::new(batching.bounded_by(&self.signature().outputs)));
        self.tell_limits();
    }

    fn tell_limits(&self) {
        let batching = self.batching.load();
        self.served.times.closings.limit(batching.max_batch_rows, batching.timeout_us, batching.concurrency);
    }

    /// Rows that wait.
    pub fn queued_rows(&self) -> usize {
        self.queued_rows.load(Ordering::Relaxed)
    }

    /// From now on every request runs alone.
    pub fn keep_apart(&self) {
        self.alone.store(true, Ordering::Relaxed);
    }

    /// Whether an answer has shown that requests must not share a run, so that rows are no rows.
    pub fn is_kept_apart(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }

    /// Columns for a batch that is put together outside the queue.
    pub fn lease(&self) -> Vec<Lease> {
        self.columns.lease()
    }

    /// So many requests are released together.
    pub(crate) fn note_company(&self, requests: usize) {
        self.one_by_one.store(requests == 1, Ordering::Relaxed);
    }

    /// Whether the request that was released last had no other beside it.
    pub(crate) fn was_alone(&self) -> bool {
        self.one_by_one.load(Ordering::Relaxed)
    }

    /// The I/O thread of this lane has nothing more to read: its open batches may go.
    pub fn release_open(&self, lane: usize) {
        self.lanes_of(lane).for_each(|lane| lock(lane).release());
    }

    /// The lane of one tier.
    pub(super) fn lane(&self, tier: usize, lane: usize) -> &Mutex<Lane> {
        let Some(below) = tier.checked_sub(1) else { return &self.lanes[lane] };
        let lanes = self.lower[below].get_or_init(|| {
            self.has_lower.store(true, Ordering::Relaxed);
            make_lanes(self.lanes.len())
        });
        &lanes[lane]
    }

    /// Lanes that ever had a request.
    pub(super) fn used_lanes(&self) -> usize {
        self.used_lanes.load(Ordering::Relaxed)
    }

    pub(super) fn note_use(&self, lane: usize) {
        let used = &self.lanes[lane].used;
        if !used.load(Ordering::Relaxed) && !used.swap(true, Ordering::Relaxed) {
            self.used_lanes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All lanes of one I/O thread, the highest tier first.
    fn lanes_of(&self, lane: usize) -> impl Iterator<Item = &Apart<Guarded>> {
        self.tiers().map(move |(_, lanes)| &lanes[lane])
    }

    /// All lanes by tier, the highest first.
    pub(super) fn tiers(&self) -> impl Iterator<Item = (usize, &[Apart<Guarded>])> {
        let lower = self.lower.iter().enumerate().filter_map(|(at, lanes)| Some((at + 1, &**lanes.get()?)));
        std::iter::once((0, &*self.lanes)).chain(lower)
    }

    fn all_lanes(&self) -> impl Iterator<Item = &Mutex<Lane>> {
        self.tiers().flat_map(|(_, lanes)| lanes).map(|lane| &***lane)
    }

    /// Whether a request was ever of a lower tier than the highest.
    #[inline]
    pub(super) fn has_lower(&self) -> bool {
        self.has_lower.load(Ordering::Relaxed)
    }

    fn lower_waits(&self) -> bool {
        self.has_lower() && self.lower_rows.iter().any(|rows| rows.load(Ordering::Relaxed) > 0)
    }

    /// Counts rows that wait, or wait no longer, where they are of a lower tier than the highest.
    pub(super) fn count_tier(&self, tier: usize, rows: usize, more: bool) {
        if let Some(count) = tier.checked_sub(1).map(|at| &self.lower_rows[at]) {
            if more {
                count.fetch_add(rows, Ordering::Relaxed)
            } else {
                count.fetch_sub(rows, Ordering::Relaxed)
            };
        }
    }

    /// Rows that wait and are of this tier or a higher one.
    pub(super) fn rows_ahead(&self, tier: usize) -> usize {
        if !self.has_lower() {
            return self.queued_rows();
        }
        let lower: usize = self.lower_rows[tier..].iter().map(|rows| rows.load(Ordering::Relaxed)).sum();
        self.queued_rows().saturating_sub(lower)
    }

    /// What is to be run next; an open batch closes here when its time has come.
    ///
    /// Higher tiers go first, but of `FAIR` batches that lower ones wait for, one is the oldest of all: nobody waits for
    /// ever.
    pub fn take(&self, now: Instant) -> NextBatch {
        self.take_from(Where::Anywhere, None, now)
    }

    /// The same of some lanes; while a lower tier waits, of all. What came to another lane before `overdue`, or was due
    /// there by its time-out, goes before what is of the same tier.
    pub fn take_from(&self, place: Where, overdue: Option<Instant>, now: Instant) -> NextBatch {
        let timeout_us = self.batching.load().timeout_us;
        if self.passed_over.load(Ordering::Relaxed) >= FAIR - 1 {
            let found = self.oldest(now, timeout_us).map(|lane| lock(lane).take(now, timeout_us));
            if let Some(Ripe::Batch(batch)) = found {
                let taken = self.taken(batch);
                self.passed_over.store(0, Ordering::Relaxed);
                return NextBatch::Batch(taken);
            }
        }
        let mut later: Option<Instant> = None;
        let all = self.lanes.len();
        let (tiers, first, count) = match place {
            Where::Anywhere => (TIERS, self.next_lane.load(Ordering::Relaxed), all),
            // Of a lane alone what is of a lower tier would go before the higher ones of others.
            Where::Only(lane) if !self.lower_waits() => (1, lane, 1),
            Where::First(lane) | Where::Only(lane) => (TIERS, lane, all),
        };
        for (_, lanes) in self.tiers().take(tiers) {
            let passed = overdue.and_then(|before| take_overdue(lanes, first, before, now, timeout_us));
            if let Some(batch) = passed {
                return NextBatch::Batch(self.taken(batch));
            }
            for index in (first..first + count).map(|index| index % all) {
                let found = lock(&lanes[index]).take(now, timeout_us);
                match found {
                    Ripe::Batch(batch) => return NextBatch::Batch(self.taken(batch)),
                    Ripe::Later(due) => later = Some(later.map_or(due, |other| other.min(due))),
                    Ripe::Nothing => {}
                }
            }
        }
        later.map_or(NextBatch::Nothing, NextBatch::Later)
    }

    /// The next batch that need not wait for large answers to be made or written: its own are small, and it is no stream,
    /// which may go on for long, nor part of a sequence, in which nothing may pass what came before.
    pub fn take_light(&self, now: Instant) -> Option<Box<Batch>> {
        if self.queued_rows() == 0 || self.signature().streaming || self.signature().sequences {
            return None;
        }
        let timeout_us = self.batching.load().timeout_us;
        let is_light = |batch: &Batch| !batch.oversized && self.served.unanswered.is_little(batch.rows);
        let batch = self.all_lanes().find_map(|lane| lock(lane).take_passing(is_light, now, timeout_us))?;
        Some(self.taken(batch))
    }

    /// The lane whose next batch waits longest.
    fn oldest(&self, now: Instant, timeout_us: u64) -> Option<&Mutex<Lane>> {
        let since = |lane: &Mutex<Lane>| lock(lane).waits_since(now, timeout_us);
        let waiting = self.all_lanes().filter_map(|lane| since(lane).map(|since| (since, lane)));
        waiting.min_by_key(|(since, _)| *since).map(|(_, lane)| lane)
    }

    /// The next of all that waits, whether its time has come or not.
    pub fn take_early(&self) -> NextBatch {
        let found = self.all_lanes().find_map(|lane| lock(lane).take_early());
        found.map_or(NextBatch::Nothing, |batch| NextBatch::Batch(self.taken(batch)))
    }

    fn taken(&self, mut batch: Batch) -> Box<Batch> {
        batch.gather(|| self.lease());
        self.next_lane.store((batch.lane + 1) % self.lanes.len(), Ordering::Relaxed);
        self.note_passed_over(batch.waiting.tier);
        self.discount(&batch.waiting, batch.waiting.take());
        Box::new(batch)
    }

    fn note_passed_over(&self, tier: usize) {
        if !self.has_lower() {
            return;
        }
        if self.queued_rows() > self.rows_ahead(tier) {
            self.passed_over.fetch_add(1, Ordering::Relaxed);
        } else {
            self.passed_over.store(0, Ordering::Relaxed);
        }
    }

    fn discount(&self, waiting: &Waiting, Count { rows, beyond }: Count) {
        self.queued_rows.fetch_sub(rows, Ordering::Relaxed);
        self.served.metrics.count_queued(-(rows as i64));
        if beyond > 0 {
            self.served.metrics.waiting_requests.fetch_sub(beyond as u64, Ordering::Relaxed);
        }
        let excess = waiting.take_excess();
        if excess > 0 {
            self.excess_rows.fetch_sub(excess, Ordering::Relaxed);
        }
        self.count_tier(waiting.tier, rows, false);
    }

    /// Counts a request no longer that is answered already, or whose client has gone: `cancelled` is its slot then.
    /// Returns whether it was still waiting.
    pub fn abandon(&self, place: &Place, cancelled: Option<u64>) -> bool {
        if let Some(slot) = cancelled {
            place.waiting.cancel(place.seat, slot);
        }
        let left = place.waiting.leave(place);
        left.into_iter().for_each(|count| self.discount(&place.waiting, count));
        left.is_some()
    }

    /// Drops the oldest batches of a lane as far as all their requests are abandoned: their memory is of use to others,
    /// and the executor behind which they wait may never come.
    pub fn drop_dead(&self, lane: usize) {
        let may = |batch: &Batch| batch.waiting.is_dead() && !batch.ends_sequence(self.signature());
        let dead: Vec<Batch> = self.lanes_of(lane).flat_map(|lane| lock(lane).take_dead(may)).collect();
        for batch in dead {
            let requests = batch.entries.iter().filter(|entry| !entry.refused).count() as u64;
            let cancelled = batch.waiting.cancelled().len() as u64;
            self.served.metrics.cancelled.fetch_add(cancelled, Ordering::Relaxed);
            self.served.metrics.deadline_drops.fetch_add(requests - cancelled, Ordering::Relaxed);
        }
    }
}

/// The next batch of the first lane behind this one whose next came before then, or was due by its time-out.
fn take_overdue(
    lanes: &[Apart<Guarded>],
    first: usize,
    before: Instant,
    now: Instant,
    timeout_us: u64,
) -> Option<Batch> {
    let mut others = (first + 1..first + lanes.len()).map(|index| lock(&lanes[index % lanes.len()]));
    let since = |lane: &Lane| lane.is_ripe_since(now, timeout_us);
    match others.find(|lane| since(lane).is_some_and(|since| since <= before))?.take(now, timeout_us) {
        Ripe::Batch(batch) => Some(batch),
        Ripe::Later(_) | Ripe::Nothing => None,
    }
}

fn make_lanes(count: usize) -> Lanes {
    (0..count).map(|_| Apart::default()).collect()
}
