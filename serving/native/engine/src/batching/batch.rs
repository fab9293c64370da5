//! Requests whose rows share columns: one entry for each of them, and the memory that holds their inputs.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_codec::signatures::TensorSpec;
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, Lease};

use crate::batching::ragged::{common, pad_rows, padded_bytes};
use crate::batching::stream::Stream;
use crate::batching::waiting::Waiting;
use crate::memory::Reservation;
use crate::metrics::CloseReason;
use crate::request_id::RequestId;
use crate::trace_context::TraceId;
use crate::tracker::TrackerToken;

/// Why a request is in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// A client waits for it.
    Primary = 0,
    /// A copy for another version; no client waits for it.
    Shadow = 1,
}

/// Holds something for as long as it is held itself.
pub type KeepAlive = Arc<dyn Any + Send + Sync>;

/// One request's place in a batch.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its first row.
    pub first_row: usize,
    /// Its number of rows.
    pub rows: usize,
    /// Rows before it in the batch as it was first put together.
    pub seat: usize,
    /// Whether it is refused although it waited: its answer would come too late.
    pub refused: bool,
    /// Inner dimensions of each input as they came, where its batch has others.
    pub own_shapes: Option<Arc<[Vec<usize>]>>,
    /// Whether its inputs came flat, and its outputs go so.
    pub flat: bool,
    /// Where its answer goes; none for a shadow.
    pub slot: Option<u64>,
    /// Its identity.
    pub id: RequestId,
    /// The trace that it belongs to, if it belongs to one.
    pub trace: Option<TraceId>,
    /// When its last byte had come.
    pub received: Instant,
    /// When it was decoded and in a batch.
    pub entered: Instant,
    /// When its answer is worth nothing any more.
    pub deadline: Instant,
    /// Primary or shadow.
    pub role: Role,
    /// The place of its priority, 0 for the highest.
    pub level: usize,
    /// Whether its answer is logged.
    pub logged: bool,
    /// What a drain waits for; none where it waits for the client's connection.
    pub token: Option<Arc<TrackerToken>>,
    /// Where its messages go; none where it is answered once, or nobody reads them.
    pub stream: Option<Arc<Stream>>,
}

/// Requests whose rows share columns.
#[derive(Debug)]
pub struct Batch {
    /// Keeps the version alive.
    pub version: KeepAlive,
    /// Rows of each input.
    pub columns: Vec<Lease>,
    /// Inner dimensions of each input; where requests have others, those that hold all of them.
    pub shapes: Arc<[Vec<usize>]>,
    /// Whether rows of its columns still have the dimensions in which they came.
    pub ragged: bool,
    /// Bytes of the largest of its requests.
    pub largest: usize,
    /// Its requests.
    pub entries: Vec<Entry>,
    /// Rows in all.
    pub rows: usize,
    /// Those of them that count against the queue: whose requests are not answered yet.
    pub waiting: Arc<Waiting>,
    /// Whether it is one request of more rows than its queue holds, which run some at a time.
    pub oversized: bool,
    /// Whether it is one request whose inputs have exactly the shapes given, without an axis for rows.
    pub unbatched: bool,
    /// When its first request came.
    pub opened: Instant,
    /// Whether it was released.
    pub due: bool,
    /// Why no more requests joined it.
    pub close_reason: CloseReason,
    /// What its columns take of the model's share.
    pub memory: Reservation,
    /// The I/O thread that filled it and gets it back.
    pub lane: usize,
}

impl Batch {
    /// Whether it may go although it is open: it has waited for `timeout_us` or, without one, was released.
    pub(super) fn is_due(&self, now: Instant, timeout_us: u64) -> bool {
        if timeout_us == 0 { self.due } else { self.opened + Duration::from_micros(timeout_us) <= now }
    }

    /// Takes the rows of dead entries out, so that they are not computed. Returns the dead entries.
    pub fn drop_dead(&mut self, specs: &[TensorSpec], dead: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        if !self.entries.iter().any(&dead) {
            return Vec::new();
        }
        let (gone, live): (Vec<Entry>, Vec<Entry>) = std::mem::take(&mut self.entries).into_iter().partition(&dead);
        for (index, spec) in specs.iter().enumerate() {
            let row = Column::row_extent(spec.dtype, &self.shapes[index]);
            let mut kept = Column::new(spec.dtype);
            for entry in &live {
                kept.extend(&self.columns[index], entry.first_row * row..(entry.first_row + entry.rows) * row);
            }
            *self.columns[index] = kept;
        }
        self.rows = 0;
        self.entries = live;
        for entry in &mut self.entries {
            entry.first_row = self.rows;
            self.rows += entry.rows;
        }
        gone
    }

    /// Makes place for a request of other shapes, whose rows are behind all others: they are padded before they run.
    pub(super) fn widen(&mut self, shapes: &[Vec<usize>], entry: &mut Entry) {
        let Some(wide) = common(&self.shapes, shapes).filter(|wide| **wide != *self.shapes) else {
            entry.own_shapes = Some(shapes.into());
            self.ragged = true;
            return;
        };
        entry.own_shapes = (*wide != *shapes).then(|| shapes.into());
        let before = std::mem::replace(&mut self.shapes, wide.into());
        for earlier in &mut self.entries {
            earlier.own_shapes.get_or_insert_with(|| before.clone());
        }
        self.ragged = true;
    }

    /// Fills all rows up to its shapes, where requests in it have others, in memory that is taken before.
    pub(crate) fn pad(&mut self, specs: &[TensorSpec], lease: impl Fn() -> Vec<Lease>) -> Result<(), Status> {
        if !std::mem::take(&mut self.ragged) {
            return Ok(());
        }
        let size = |columns: &[Lease]| columns.iter().map(|column| column.byte_size()).sum::<usize>();
        let before = size(&self.columns);
        let after = padded_bytes(specs, &self.shapes, self.rows, self.largest).max(before);
        self.memory.grow(after, after / self.entries.len().max(1))?;
        let mut columns = lease();
        for (index, spec) in specs.iter().enumerate() {
            let to = &self.shapes[index];
            let mut start = 0;
            for entry in &self.entries {
                let from = entry.own_shapes.as_ref().map_or(to, |own| &own[index]);
                let end = start + Column::row_extent(spec.dtype, from) * entry.rows;
                pad_rows(spec, &mut columns[index], (&self.columns[index], start..end), (from, to));
                start = end;
            }
        }
        self.columns = columns;
        self.memory.shrink(before + after.saturating_sub(size(&self.columns)));
        Ok(())
    }

    /// Marks who cannot be answered in time with so many rows ahead, and counts the rows of the others. Returns copies of
    /// the marked. Copies for a shadow stay: nobody waits for them.
    pub(crate) fn refuse_unless(
        &mut self,
        now: Instant,
        ahead: &mut usize,
        in_time: impl Fn(&Entry, usize) -> bool,
    ) -> Vec<Entry> {
        let mut late = Vec::new();
        for entry in self.entries.iter_mut().filter(|entry| !entry.refused && entry.deadline > now) {
            if entry.slot.is_none() || in_time(entry, *ahead) {
                *ahead += entry.rows;
            } else {
                entry.refused = true;
                late.push(entry.clone());
            }
        }
        late
    }

    /// Takes the entries from `at` on out, with their rows, which go into `columns`. They wait once more.
    pub fn split_off(&mut self, at: usize, specs: &[TensorSpec], mut columns: Vec<Lease>) -> Batch {
        let mut entries = self.entries.split_off(at);
        let first_row = entries.first().map_or(self.rows, |entry| entry.first_row);
        let rows = self.rows - first_row;
        for (index, spec) in specs.iter().enumerate() {
            let row = Column::row_extent(spec.dtype, &self.shapes[index]);
            columns[index].extend(&self.columns[index], first_row * row..self.rows * row);
            self.columns[index].truncate(first_row * row);
        }
        self.rows = first_row;
        entries.iter_mut().for_each(|entry| entry.first_row -= first_row);
        let bytes = columns.iter().map(|column| column.byte_size()).sum();
        let seats = entries.iter().map(|entry| entry.seat).collect();
        Batch {
            version: self.version.clone(),
            columns,
            shapes: self.shapes.clone(),
            ragged: false,
            largest: self.largest,
            entries,
            rows,
            waiting: self.waiting.put_back(seats, rows),
            oversized: false,
            unbatched: self.unbatched,
            opened: self.opened,
            due: false,
            close_reason: self.close_reason,
            memory: self.memory.split(bytes),
            lane: self.lane,
        }
    }
}
