//! The bounded batch queue of one signature: each I/O thread writes into an open batch of its own, executors take.
//! Endpoints append decoded requests; a batch closes when the sockets run dry, is full, or has waited long enough.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::batch::{Batch, Entry};
use crate::column::Column;
use crate::intake::Intake;
use crate::lock;
use crate::metrics::VersionMetrics;
use crate::pool::{Lease, Pool};
use crate::signature::Signature;
use crate::status::Status;
use crate::version::{Batching, Version};

/// A request that waited this long wakes an idle executor even while the I/O thread has more to read.
const RIPE_AFTER: Duration = Duration::from_micros(250);

/// What an executor finds.
pub enum Taken {
    /// A closed batch.
    Batch(Box<Batch>),
    /// Nothing yet; an open batch closes at this time.
    Later(Instant),
    /// Nothing.
    Nothing,
}

/// What an append asks of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Wake the crew when the sockets run dry.
    WhenDry,
    /// Wake the crew now.
    Now,
    /// Both: a batch closed, and the request is in the next one, which is open.
    NowAndWhenDry,
    /// Nothing was added: the request has no rows.
    Never,
}

#[derive(Debug, Default)]
struct Lane {
    open: Option<Batch>,
    closed: VecDeque<Batch>,
    shapes: Vec<Vec<usize>>,
    marks: Vec<usize>,
    ripe: bool,
}

/// When a batch closes and how long the queue may grow; may change while requests wait.
#[derive(Debug)]
pub struct QueueLimits {
    max_batch_rows: AtomicUsize,
    timeout_us: AtomicU64,
    max_queued_rows: AtomicUsize,
    allowed_batch_sizes: Mutex<Arc<[usize]>>,
}

impl QueueLimits {
    fn new(batching: &Batching) -> QueueLimits {
        QueueLimits {
            max_batch_rows: AtomicUsize::new(batching.max_batch_rows),
            timeout_us: AtomicU64::new(batching.timeout_us),
            max_queued_rows: AtomicUsize::new(batching.max_queued_rows),
            allowed_batch_sizes: Mutex::new(batching.allowed_batch_sizes.clone()),
        }
    }

    /// Takes over new ones. A batch that is larger already goes as it is.
    pub fn set(&self, batching: &Batching) {
        self.max_batch_rows.store(batching.max_batch_rows, Ordering::Relaxed);
        self.timeout_us.store(batching.timeout_us, Ordering::Relaxed);
        self.max_queued_rows.store(batching.max_queued_rows, Ordering::Relaxed);
        lock(&self.allowed_batch_sizes).clone_from(&batching.allowed_batch_sizes);
    }

    /// Closes a batch.
    pub fn max_batch_rows(&self) -> usize {
        self.max_batch_rows.load(Ordering::Relaxed)
    }

    /// Waits that long for more, if above zero.
    pub fn timeout_us(&self) -> u64 {
        self.timeout_us.load(Ordering::Relaxed)
    }

    /// Beyond it a request is refused.
    pub fn max_queued_rows(&self) -> usize {
        self.max_queued_rows.load(Ordering::Relaxed)
    }

    /// The only numbers of rows that the model is asked for, ascending; empty for any.
    pub fn allowed_batch_sizes(&self) -> Arc<[usize]> {
        lock(&self.allowed_batch_sizes).clone()
    }
}

/// What waits to be run.
#[derive(Debug)]
pub struct Queue {
    limits: QueueLimits,
    lanes: Box<[Mutex<Lane>]>,
    queued_rows: AtomicUsize,
    /// Whether an answer has shown that requests must not share a run.
    alone: AtomicBool,
    pool: Arc<Pool>,
    fixed_shapes: Option<Arc<[Vec<usize>]>>,
    metrics: Arc<VersionMetrics>,
}

/// Columns of the open batch and room for inner shapes, for a decoder to fill.
pub struct Page<'a> {
    /// One per input.
    pub columns: &'a mut [Lease],
    /// To be filled when the signature has unknown inner dimensions, or the request is a whole.
    pub shapes: &'a mut Vec<Vec<usize>>,
}

impl Queue {
    /// An empty queue with one lane per I/O thread.
    pub fn new(signature: &Signature, batching: &Batching, lanes: usize, metrics: Arc<VersionMetrics>) -> Queue {
        let fixed = signature.inputs.iter().map(crate::signature::TensorSpec::fixed_inner).collect::<Option<Vec<_>>>();
        Queue {
            limits: QueueLimits::new(batching),
            lanes: (0..lanes).map(|_| Mutex::default()).collect(),
            queued_rows: AtomicUsize::new(0),
            alone: AtomicBool::new(false),
            pool: Pool::new(signature.inputs.iter().map(|spec| spec.dtype).collect()),
            fixed_shapes: fixed.map(Into::into),
            metrics,
        }
    }

    /// Its limits now.
    pub fn limits(&self) -> &QueueLimits {
        &self.limits
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
        self.pool.lease()
    }

    fn full(&self, rows: usize) -> Status {
        self.metrics.rejections.fetch_add(1, Ordering::Relaxed);
        let limit = self.limits.max_queued_rows();
        Status::exhausted(format!("the batch queue is full: {rows} more rows would pass its limit of {limit} rows"))
    }

    #[cold]
    fn never_fits(&self, rows: usize) -> Status {
        let limit = self.limits.max_queued_rows();
        Status::invalid(format!("the request has {rows} rows, its queue holds at most {limit}: send fewer at a time"))
    }

    /// Lets `decode` write a request's rows into the open batch, then enters it as `entry`.
    ///
    /// Nothing stays of a request that fails, does not fit or has no rows.
    pub fn append(
        &self,
        signature: &Signature,
        version: &Arc<Version>,
        lane_index: usize,
        mut entry: Entry,
        decode: impl FnOnce(&mut Page<'_>) -> Result<Intake, Status>,
    ) -> Result<(Intake, Urgency), Status> {
        if self.queued_rows() >= self.limits.max_queued_rows() {
            return Err(self.full(1));
        }
        let lane = &mut *lock(&self.lanes[lane_index]);
        let open = lane.open.get_or_insert_with(|| self.open_batch(version, lane_index, entry.received));
        lane.marks.clear();
        lane.marks.extend(open.columns.iter().map(|column| column.extent()));
        let decoded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            decode(&mut Page { columns: &mut open.columns, shapes: &mut lane.shapes })
        }));
        let decoded = decoded.unwrap_or_else(|_| Err(Status::internal("the request could not be decoded")));
        let admitted = decoded.and_then(|intake| {
            let rows = intake.rows;
            let shapes = self.fixed_shapes.as_deref().filter(|_| !intake.whole).unwrap_or(&lane.shapes);
            check_extents(signature, open, &lane.marks, shapes, rows)?;
            if rows > self.limits.max_queued_rows() {
                return Err(self.never_fits(rows));
            }
            let before = self.queued_rows.fetch_add(rows, Ordering::Relaxed);
            if before + rows > self.limits.max_queued_rows() {
                self.queued_rows.fetch_sub(rows, Ordering::Relaxed);
                return Err(self.full(rows));
            }
            self.metrics.queued_rows.fetch_add(rows as u64, Ordering::Relaxed);
            Ok(intake)
        });
        if !matches!(admitted, Ok(Intake { rows: 1.., .. })) {
            open.columns.iter_mut().zip(&lane.marks).for_each(|(column, mark)| column.truncate(*mark));
            // An empty batch must not stay: it would hold the version for ever.
            lane.open.take_if(|open| open.rows == 0);
            return admitted.map(|intake| (intake, Urgency::Never));
        }
        let intake = admitted?;
        (entry.rows, entry.flat) = (intake.rows, intake.flat);
        Ok((intake, self.enter(lane, entry, intake.whole)))
    }

    fn open_batch(&self, version: &Arc<Version>, lane: usize, opened: Instant) -> Batch {
        Batch {
            version: version.clone(),
            columns: self.pool.lease(),
            shapes: self.fixed_shapes.clone().unwrap_or_default(),
            entries: Vec::with_capacity(64),
            rows: 0,
            whole: false,
            opened,
            lane,
        }
    }

    /// Enters a request whose rows stand behind the marks; closes the open batch where it must not join it.
    fn enter(&self, lane: &mut Lane, mut entry: Entry, whole: bool) -> Urgency {
        let Some(open) = lane.open.as_mut() else {
            return Urgency::Now;
        };
        let alone = whole || self.is_kept_apart();
        let fits = open.rows == 0
            || (!alone
                && open.rows + entry.rows <= self.limits.max_batch_rows()
                && (self.fixed_shapes.is_some() || *open.shapes == *lane.shapes));
        if !fits {
            let mut next = self.open_batch(&open.version, open.lane, entry.received);
            for ((column, old), mark) in next.columns.iter_mut().zip(&mut open.columns).zip(&lane.marks) {
                column.extend(old, *mark..old.extent());
                old.truncate(*mark);
            }
            let full = std::mem::replace(open, next);
            lane.closed.push_back(full);
        }
        if open.rows == 0 {
            open.opened = entry.received;
            lane.ripe = false;
            open.whole = whole;
            if whole || self.fixed_shapes.is_none() {
                open.shapes = lane.shapes.as_slice().into();
            }
        }
        let received = entry.received;
        entry.first_row = open.rows;
        open.rows += entry.rows;
        open.entries.push(entry);
        let full = alone || open.rows >= self.limits.max_batch_rows();
        let ripe = self.limits.timeout_us() == 0 && received.saturating_duration_since(open.opened) > RIPE_AFTER;
        if full {
            lane.closed.extend(lane.open.take());
        } else if ripe && !lane.ripe {
            lane.ripe = true;
            return Urgency::Now;
        }
        match (full, fits) {
            (true, _) => Urgency::Now,
            (false, false) => Urgency::NowAndWhenDry,
            (false, true) => Urgency::WhenDry,
        }
    }

    /// The I/O thread of this lane has nothing more to read: its open batch may go.
    pub fn ripen(&self, lane: usize) {
        lock(&self.lanes[lane]).ripe = true;
    }

    /// What is to be run next; an open batch closes here when its time has come.
    pub fn take(&self, now: Instant) -> Taken {
        let mut later: Option<Instant> = None;
        for lane in &self.lanes {
            let mut lane = lock(lane);
            if let Some(batch) = lane.closed.pop_front() {
                return self.taken(batch);
            }
            let Some(open) = lane.open.as_ref().filter(|open| open.rows > 0) else {
                continue;
            };
            let timeout_us = self.limits.timeout_us();
            if timeout_us > 0 {
                let due = open.opened + Duration::from_micros(timeout_us);
                if due > now {
                    later = Some(later.map_or(due, |other| other.min(due)));
                    continue;
                }
            } else if !lane.ripe {
                continue;
            }
            if let Some(batch) = lane.open.take() {
                return self.taken(batch);
            }
        }
        later.map_or(Taken::Nothing, Taken::Later)
    }

    /// The next of all that waits, whether its time has come or not.
    pub fn take_early(&self) -> Taken {
        for lane in &self.lanes {
            let mut lane = lock(lane);
            let closed = lane.closed.pop_front();
            if let Some(batch) = closed.or_else(|| lane.open.take_if(|open| open.rows > 0)) {
                return self.taken(batch);
            }
        }
        Taken::Nothing
    }

    fn taken(&self, batch: Batch) -> Taken {
        self.queued_rows.fetch_sub(batch.rows, Ordering::Relaxed);
        self.metrics.queued_rows.fetch_sub(batch.rows as u64, Ordering::Relaxed);
        Taken::Batch(Box::new(batch))
    }

    /// Whether a request has not been taken yet.
    pub fn waits(&self, lane: usize, slot: u64) -> bool {
        let lane = lock(&self.lanes[lane]);
        let waiting = lane.open.iter().chain(lane.closed.iter());
        waiting.flat_map(|batch| &batch.entries).any(|entry| entry.slot == Some(slot))
    }

    /// Marks a waiting request as not wanted any more. False when it is no longer waiting.
    pub fn cancel(&self, lane: usize, slot: u64) -> bool {
        let mut lane = lock(&self.lanes[lane]);
        let lane = &mut *lane;
        let waiting = lane.open.iter_mut().chain(lane.closed.iter_mut());
        let found = waiting.flat_map(|batch| &mut batch.entries).find(|entry| entry.slot == Some(slot));
        found.map(|entry| entry.cancelled = true).is_some()
    }
}

/// Every input must have grown by exactly the request's rows; a name sent twice would break that.
fn check_extents(
    signature: &Signature,
    open: &Batch,
    marks: &[usize],
    shapes: &[Vec<usize>],
    rows: usize,
) -> Result<(), Status> {
    for (index, spec) in signature.inputs.iter().enumerate() {
        let grown = open.columns[index].extent() - marks[index];
        if grown != rows * Column::row_extent(spec.dtype, &shapes[index]) {
            return Err(Status::invalid(format!("input '{}' is given twice or not at all", spec.name)));
        }
    }
    Ok(())
}
