//! The bounded batch queue of one signature. Each I/O thread fills an open batch of its own; it closes when the sockets
//! are idle, when it is full, or when it has waited long enough.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tidegate_codec::signatures::{RequestRows, Signature, TensorSpec};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, ColumnPool, Lease, Page, Room};

use crate::batching::batch::{Batch, Entry, KeepAlive};
use crate::batching::executor_pool::ExecutorPool;
use crate::batching::limits::Batching;
use crate::batching::served_signature::ServedSignature;
use crate::batching::service_time::ServiceTime;
use crate::memory::Reservation;
use crate::sync::lock;

/// A request that waited this long wakes an idle executor even while the I/O thread has more to read.
const DUE_AFTER: Duration = Duration::from_micros(250);

/// A batch of more bytes closes, and a request of more bytes has a batch of its own, which is not copied to run again.
const BATCH_BYTES: usize = 64 << 20;
const ALONE_BYTES: usize = 8 << 20;

/// Decoding takes memory in steps of at least this much.
const STEP: usize = 16 << 10;

/// The memory that one request takes while it is decoded.
struct Taking<'a> {
    memory: &'a mut Reservation,
    asked: usize,
    taken: usize,
}

impl Room for Taking<'_> {
    fn take(&mut self, bytes: usize) -> Result<(), Status> {
        self.asked = self.asked.saturating_add(bytes);
        if self.asked > self.taken.max(STEP) {
            let more = (self.asked - self.taken).max(STEP);
            self.memory.grow(more, self.asked)?;
            self.taken += more;
        }
        Ok(())
    }
}

impl Taking<'_> {
    /// The request is decoded and takes just this much.
    #[inline]
    fn settle(self, bytes: usize) -> Result<(), Status> {
        if bytes <= self.taken {
            self.memory.shrink(self.taken - bytes);
            return Ok(());
        }
        let grown = self.memory.grow(bytes - self.taken, bytes);
        if grown.is_err() {
            self.memory.shrink(self.taken);
        }
        grown
    }
}

/// What an executor finds.
pub enum NextBatch {
    /// A closed batch.
    Batch(Box<Batch>),
    /// Nothing yet; an open batch closes at this time.
    Later(Instant),
    /// Nothing.
    Nothing,
}

/// When the caller of an append must wake executors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Wake the executors when the sockets are idle.
    WhenIdle,
    /// Wake the executors now.
    Now,
    /// Both: a batch closed, and the request is in the next one, which is open.
    NowAndWhenIdle,
    /// Nothing was added: the request has no rows.
    Never,
}

#[derive(Debug, Default)]
struct Lane {
    open: Option<Batch>,
    closed: VecDeque<Batch>,
    shapes: Vec<Vec<usize>>,
    marks: Vec<usize>,
    due: bool,
}

/// What waits to be run.
#[derive(Debug)]
pub struct Queue {
    batching: ArcSwap<Batching>,
    lanes: Box<[Mutex<Lane>]>,
    /// Where `take` looks first: every lane has its turn.
    next_lane: AtomicUsize,
    queued_rows: AtomicUsize,
    /// How long batches take.
    pub service: ServiceTime,
    /// Whether an answer has shown that requests must not share a run.
    alone: AtomicBool,
    columns: Arc<ColumnPool>,
    fixed_shapes: Option<Arc<[Vec<usize>]>>,
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
        Queue {
            batching: ArcSwap::from_pointee(batching.bounded_by(&served.signature.outputs)),
            lanes: (0..lanes).map(|_| Mutex::default()).collect(),
            next_lane: AtomicUsize::new(0),
            queued_rows: AtomicUsize::new(0),
            service: ServiceTime::default(),
            alone: AtomicBool::new(false),
            columns: ColumnPool::new(inputs.iter().map(|spec| spec.dtype).collect()),
            fixed_shapes: fixed.map(Into::into),
            served,
            executors,
        }
    }

    /// What it takes and gives.
    #[inline]
    pub fn signature(&self) -> &Signature {
        &self.served.signature
    }

    /// The numbers of rows that the model runs; empty for any.
    pub fn allowed_batch_sizes(&self) -> Arc<[usize]> {
        self.batching.load().allowed_batch_sizes.clone()
    }

    /// Takes over other limits. A batch that is larger already goes as it is.
    pub fn tune(&self, batching: &Batching) {
        self.batching.store(Arc::new(batching.bounded_by(&self.signature().outputs)));
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

    #[cold]
    fn full(&self, rows: usize, limit: usize) -> Status {
        self.served.metrics.rejections.fetch_add(1, Ordering::Relaxed);
        Status::exhausted(format!("the batch queue is full: {rows} more rows would pass its limit of {limit} rows"))
    }

    /// Lets `decode` write a request's rows into the open batch, then enters it as `entry`.
    ///
    /// Nothing stays of a request that fails, does not fit or has no rows.
    pub fn append<V: Send + Sync + 'static>(
        &self,
        version: &Arc<V>,
        lane_index: usize,
        mut entry: Entry,
        decode: impl FnOnce(&mut Page<'_>) -> Result<RequestRows, Status>,
    ) -> Result<(RequestRows, Urgency), Status> {
        let batching = self.batching.load();
        let limit = batching.max_queued_rows;
        if self.queued_rows() >= limit {
            return Err(self.full(1, limit));
        }
        let lane = &mut *lock(&self.lanes[lane_index]);
        let open = lane.open.get_or_insert_with(|| self.open_batch(version.clone(), lane_index, entry.received));
        lane.marks.clear();
        lane.marks.extend(open.columns.iter().map(|column| column.extent()));
        let bytes_before: usize = open.columns.iter().map(|column| column.byte_size()).sum();
        let mut room = Taking { memory: &mut open.memory, asked: 0, taken: 0 };
        let decoded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            decode(&mut Page { columns: &mut open.columns, shapes: &mut lane.shapes, room: &mut room })
        }));
        let bytes = open.columns.iter().map(|column| column.byte_size()).sum::<usize>() - bytes_before;
        let settled = room.settle(if matches!(decoded, Ok(Ok(_))) { bytes } else { 0 });
        let held = matches!(decoded, Ok(Ok(_))) && settled.is_ok();
        let decoded = decoded.unwrap_or_else(|_| Err(Status::internal("the request could not be decoded")));
        let admitted = decoded.and_then(|request| settled.map(|()| request)).and_then(|request| {
            let rows = request.rows;
            let shapes = self.fixed_shapes.as_deref().filter(|_| !request.unbatched).unwrap_or(&lane.shapes);
            check_extents(self.signature(), open, &lane.marks, shapes, rows)?;
            if rows > limit {
                return Err(never_fits(rows, limit));
            }
            let before = self.queued_rows.fetch_add(rows, Ordering::Relaxed);
            if before + rows > limit {
                self.queued_rows.fetch_sub(rows, Ordering::Relaxed);
                return Err(self.full(rows, limit));
            }
            if before > 0 {
                let wait = self.expected_wait(before, &batching);
                if entry.received + wait > entry.deadline {
                    self.queued_rows.fetch_sub(rows, Ordering::Relaxed);
                    return Err(self.too_slow(before, wait));
                }
            }
            self.served.metrics.queued_rows.fetch_add(rows as u64, Ordering::Relaxed);
            Ok(request)
        });
        if !matches!(admitted, Ok(RequestRows { rows: 1.., .. })) {
            // What was not settled is given back already.
            open.memory.shrink(if held { bytes } else { 0 });
            open.columns.iter_mut().zip(&lane.marks).for_each(|(column, mark)| column.truncate(*mark));
            // An empty batch must not stay: it would hold the version for ever.
            lane.open.take_if(|open| open.rows == 0);
            return admitted.map(|request| (request, Urgency::Never));
        }
        let request = admitted?;
        (entry.rows, entry.flat) = (request.rows, request.flat);
        Ok((request, self.enter(lane, entry, request.unbatched, bytes, &batching)))
    }

    fn open_batch(&self, version: KeepAlive, lane: usize, opened: Instant) -> Batch {
        Batch {
            version,
            columns: self.columns.lease(),
            shapes: self.fixed_shapes.clone().unwrap_or_default(),
            entries: Vec::with_capacity(64),
            rows: 0,
            waiting_rows: 0,
            unbatched: false,
            opened,
            memory: self.served.memory.reservation(),
            lane,
        }
    }

    /// Enters a request whose rows stand behind the marks; closes the open batch where it must not join it.
    fn enter(&self, lane: &mut Lane, mut entry: Entry, unbatched: bool, bytes: usize, batching: &Batching) -> Urgency {
        let Some(open) = lane.open.as_mut() else {
            return Urgency::Now;
        };
        let alone = unbatched || self.is_kept_apart() || bytes > ALONE_BYTES;
        let fits = open.rows == 0
            || (!alone
                && open.rows + entry.rows <= batching.max_batch_rows
                && (self.fixed_shapes.is_some() || *open.shapes == *lane.shapes));
        if !fits {
            let mut next = self.open_batch(open.version.clone(), open.lane, entry.received);
            for ((column, old), mark) in next.columns.iter_mut().zip(&mut open.columns).zip(&lane.marks) {
                column.extend(old, *mark..old.extent());
                old.truncate(*mark);
            }
            next.memory = open.memory.split(bytes);
            let full = std::mem::replace(open, next);
            lane.closed.push_back(full);
        }
        if open.rows == 0 {
            open.opened = entry.received;
            lane.due = false;
            open.unbatched = unbatched;
            if unbatched || self.fixed_shapes.is_none() {
                open.shapes = lane.shapes.as_slice().into();
            }
        }
        let received = entry.received;
        entry.first_row = open.rows;
        open.rows += entry.rows;
        open.waiting_rows += entry.rows;
        open.entries.push(entry);
        let full = alone || open.rows >= batching.max_batch_rows || open.memory.bytes() >= BATCH_BYTES;
        let due = batching.timeout_us == 0 && received.saturating_duration_since(open.opened) > DUE_AFTER;
        if full {
            lane.closed.extend(lane.open.take());
        } else if due && !lane.due {
            lane.due = true;
            return Urgency::Now;
        }
        match (full, fits) {
            (true, _) => Urgency::Now,
            (false, false) => Urgency::NowAndWhenIdle,
            (false, true) => Urgency::WhenIdle,
        }
    }

    /// The I/O thread of this lane has nothing more to read: its open batch may go.
    pub fn release_open(&self, lane: usize) {
        lock(&self.lanes[lane]).due = true;
    }

    /// What is to be run next; an open batch closes here when its time has come.
    pub fn take(&self, now: Instant) -> NextBatch {
        let timeout_us = self.batching.load().timeout_us;
        let mut later: Option<Instant> = None;
        let (first, lanes) = (self.next_lane.load(Ordering::Relaxed), self.lanes.len());
        for index in (first..first + lanes).map(|index| index % lanes) {
            let mut lane = lock(&self.lanes[index]);
            if let Some(batch) = lane.closed.pop_front() {
                return self.taken(batch);
            }
            let Some(open) = lane.open.as_ref().filter(|open| open.rows > 0) else {
                continue;
            };
            if timeout_us > 0 {
                let due = open.opened + Duration::from_micros(timeout_us);
                if due > now {
                    later = Some(later.map_or(due, |other| other.min(due)));
                    continue;
                }
            } else if !lane.due {
                continue;
            }
            if let Some(batch) = lane.open.take() {
                return self.taken(batch);
            }
        }
        later.map_or(NextBatch::Nothing, NextBatch::Later)
    }

    /// The next of all that waits, whether its time has come or not.
    pub fn take_early(&self) -> NextBatch {
        for lane in &self.lanes {
            let mut lane = lock(lane);
            let closed = lane.closed.pop_front();
            if let Some(batch) = closed.or_else(|| lane.open.take_if(|open| open.rows > 0)) {
                return self.taken(batch);
            }
        }
        NextBatch::Nothing
    }

    fn taken(&self, batch: Batch) -> NextBatch {
        self.next_lane.store((batch.lane + 1) % self.lanes.len(), Ordering::Relaxed);
        self.discount(batch.waiting_rows);
        NextBatch::Batch(Box::new(batch))
    }

    fn discount(&self, rows: usize) {
        self.queued_rows.fetch_sub(rows, Ordering::Relaxed);
        self.served.metrics.queued_rows.fetch_sub(rows as u64, Ordering::Relaxed);
    }

    /// Counts requests of a lane no longer that are answered already, or whose clients have gone; the latter are marked
    /// as cancelled. Returns those of them that were still waiting. One pass, however many they are.
    pub fn abandon(&self, lane: usize, slots: &HashSet<u64>, cancelled: bool) -> HashSet<u64> {
        let mut lane = lock(&self.lanes[lane]);
        let lane = &mut *lane;
        let (mut found, mut rows) = (HashSet::new(), 0);
        for batch in lane.open.iter_mut().chain(lane.closed.iter_mut()) {
            for entry in &mut batch.entries {
                if let Some(slot) = entry.slot.filter(|slot| slots.contains(slot)) {
                    entry.cancelled |= cancelled;
                    batch.waiting_rows -= entry.rows;
                    rows += entry.rows;
                    found.insert(slot);
                }
            }
        }
        self.discount(rows);
        found
    }

    /// How long rows that come behind those that wait will wait themselves, by what earlier batches took.
    fn expected_wait(&self, before: usize, batching: &Batching) -> Duration {
        let runs = (before / batching.max_batch_rows) as u64;
        Duration::from_nanos(self.service.expect(before as u64, runs) / batching.concurrency as u64)
    }

    #[cold]
    fn too_slow(&self, rows: usize, wait: Duration) -> Status {
        self.served.metrics.rejections.fetch_add(1, Ordering::Relaxed);
        let wait = wait.as_millis();
        Status::exhausted(format!(
            "the batch queue is full: {rows} rows wait, which takes about {wait} ms, and the request's deadline is \
             sooner"
        ))
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

#[cold]
fn never_fits(rows: usize, limit: usize) -> Status {
    Status::invalid(format!("the request has {rows} rows, its queue holds at most {limit}: send fewer at a time"))
}
