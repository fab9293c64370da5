//! Requests whose rows share columns: one entry for each of them, and the memory that holds their inputs.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_codec::signatures::sequences::SEQUENCE_END;
use tidegate_codec::signatures::{Signature, TensorSpec};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, Lease};

use crate::batching::kept::Kept;
use crate::batching::ragged::{common, pad_rows, padded_bytes};
use crate::batching::stream::Stream;
use crate::batching::waiting::Waiting;
use crate::memory::Reservation;
use crate::metrics::{Asked, CloseReason};
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
    /// What was asked for, and where.
    pub asked: Asked,
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
    /// Rows of its connection that were under way when it came; of a copy, which has none, as many as there can be.
    pub under_way: usize,
    /// Whether its answer is logged.
    pub logged: bool,
    /// What a drain waits for; none where it waits for the client's connection.
    pub token: Option<Arc<TrackerToken>>,
    /// Where its messages go; none where it is answered once, or nobody reads them.
    pub stream: Option<Arc<Stream>>,
    /// How long each message is waited for of a copy, which has no stream, where the deadline moves on with them.
    pub patience: Option<Duration>,
}

/// The rows of a request that was decoded apart.
#[derive(Debug)]
pub struct Piece {
    /// Where they belong: behind so much of each of the batch's own columns.
    pub behind: Vec<usize>,
    /// Their elements, input by input.
    pub columns: Vec<Lease>,
}

/// Requests whose rows share columns.
#[derive(Debug)]
pub struct Batch {
    /// Keeps the version alive.
    pub version: KeepAlive,
    /// Rows of each input, without those of its pieces.
    pub columns: Vec<Lease>,
    /// Rows that join the others when it is taken to be run, all at once: to copy them one request at a time would copy the
    /// first of them again and again, while the lane is locked.
    pub pieces: Vec<Piece>,
    /// Its rows as they came, where they were copied out of pieces that there is memory for, and are all there still.
    pub kept: Option<Vec<Kept>>,
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
    /// Adds the rows of a request that was decoded apart, behind all others.
    pub(super) fn push_piece(&mut self, columns: Vec<Lease>) {
        let behind = self.columns.iter().map(|column| column.extent()).collect();
        self.pieces.push(Piece { behind, columns });
    }

    /// Brings the rows of its pieces into its columns, in columns of `lease`. Of one request there is nothing to be copied.
    pub(super) fn gather(&mut self, lease: impl Fn() -> Vec<Lease>) {
        if let [only] = &mut *self.pieces
            && self.columns.iter().all(|column| column.extent() == 0)
        {
            self.columns = std::mem::take(&mut only.columns);
            self.pieces.clear();
        }
        if self.pieces.is_empty() {
            return;
        }
        let own = std::mem::replace(&mut self.columns, lease());
        let sizes = |index: usize| self.pieces.iter().map(move |piece| piece.columns[index].byte_size()).sum::<usize>();
        let sizes: Vec<usize> = (0..own.len()).map(sizes).collect();
        for ((column, own), size) in self.columns.iter_mut().zip(&own).zip(&sizes) {
            column.reserve(own.byte_size() + size);
        }
        let all = sizes.iter().sum();
        // Where there is memory for them they need not be copied once more for the log, or to be run again.
        let keeps = own.iter().all(|column| column.extent() == 0) && self.memory.grow(all, all).is_ok();
        let mut kept: Vec<Vec<Lease>> = own.iter().map(|_| Vec::new()).collect();
        let mut before = vec![0; own.len()];
        for Piece { behind, columns } in self.pieces.drain(..) {
            for (index, (column, piece)) in self.columns.iter_mut().zip(columns).enumerate() {
                column.extend(&own[index], before[index]..behind[index]);
                column.extend(&piece, 0..piece.extent());
                // All others go back at once.
                kept[index].extend(keeps.then_some(piece));
            }
            before = behind;
        }
        for (index, column) in self.columns.iter_mut().enumerate() {
            column.extend(&own[index], before[index]..own[index].extent());
        }
        self.kept = keeps.then(|| kept.into_iter().map(Kept::pieces).collect());
    }

    /// Gives back what was kept of its rows: there are others now, or nobody wants them.
    pub(super) fn forget_kept(&mut self) {
        if let Some(kept) = self.kept.take() {
            self.memory.shrink(kept.iter().map(Kept::byte_size).sum());
        }
    }

    /// Whether it may go although it is open: it has waited for `timeout_us` or, without one, was released.
    pub(super) fn is_due(&self, now: Instant, timeout_us: u64) -> bool {
        if timeout_us == 0 { self.due } else { self.opened + Duration::from_micros(timeout_us) <= now }
    }

    /// Whether it is the last request of a sequence. It runs although nobody waits for it any more: the sequence ends by
    /// that alone, and the next request under its id would go on with what the model kept.
    pub(super) fn ends_sequence(&self, signature: &Signature) -> bool {
        if !signature.sequences {
            return false;
        }
        let Some(at) = signature.inputs.iter().position(|spec| spec.name == SEQUENCE_END) else { return false };
        let mut parts = std::iter::once(&self.columns[at]).chain(self.pieces.iter().map(|piece| &piece.columns[at]));
        parts.any(|column| matches!(&**column, Column::Raw(said) if said.as_bytes().iter().any(|byte| *byte != 0)))
    }

    /// Takes the rows of dead entries out, so that they are not computed. Returns the dead entries.
    pub fn drop_dead(&mut self, specs: &[TensorSpec], dead: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        if !self.entries.iter().any(&dead) {
            return Vec::new();
        }
        self.forget_kept();
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
        self.forget_kept();
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
        self.forget_kept();
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
            pieces: Vec::new(),
            kept: None,
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
