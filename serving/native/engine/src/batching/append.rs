//! How requests come into a queue: each I/O thread decodes them into an open batch of its own. A large one is decoded
//! apart, since nobody else can use the lane while its lock is held.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_codec::signatures::{RequestRows, Signature, show_shape};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, Lease, Page};

use crate::batching::admission::Admitted;
use crate::batching::batch::{Batch, Entry, KeepAlive, Role};
use crate::batching::incoming::{Decode, Incoming};
use crate::batching::lane::Lane;
use crate::batching::limits::Batching;
use crate::batching::queue::Queue;
use crate::batching::ragged::{common, padded_bytes};
use crate::batching::taking::Taking;
use crate::batching::waiting::{Count, Place, Waiting};
use crate::metrics::CloseReason;
use crate::sync::lock;

/// A request that waited this long wakes an idle executor even while the I/O thread has more to read.
pub(crate) const DUE_AFTER: Duration = Duration::from_micros(250);

/// A batch of more bytes closes, and a request of more bytes has a batch of its own, which is not copied to run again.
const BATCH_BYTES: usize = 64 << 20;
const ALONE_BYTES: usize = 8 << 20;

/// A request of more bytes is decoded into columns of its own, as nobody can use the lane meanwhile.
const IN_PLACE_BYTES: usize = 64 << 10;

/// When the caller of an append must wake executors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Wake the executors when the sockets are idle.
    WhenIdle,
    /// The same; but its batch was released before, so that an executor will find it anyway.
    Released,
    /// Wake the executors now.
    Now,
    /// Both: a batch closed, and the request is in the next one, which is open.
    NowAndWhenIdle,
    /// Nothing was added: the request has no rows.
    Never,
}

/// What became of a request that was decoded.
#[derive(Debug)]
pub struct Appended {
    /// Its rows.
    pub request: RequestRows,
    /// When executors are to be woken.
    pub urgency: Urgency,
    /// Where it waits; none where it has no rows.
    pub place: Option<Place>,
}

/// A request that is decoded and counted in.
struct Decoded {
    request: RequestRows,
    bytes: usize,
    /// Rows that the queue's limit does not count.
    excess: usize,
    /// Whether the queue has no place for it.
    beyond: bool,
    /// Whether no other request may share its batch.
    alone: bool,
}

impl Queue {
    /// Lets `decode` write a request's rows into a batch, then enters it as `entry`. `bytes` are those of its message; a
    /// large one is decoded before the lane is locked.
    ///
    /// Nothing stays of a request that fails, does not fit or has no rows.
    pub fn append<V: Send + Sync + 'static>(
        &self,
        version: &Arc<V>,
        lane: usize,
        mut entry: Entry,
        bytes: usize,
        decode: &Decode<'_>,
    ) -> Result<Appended, Status> {
        let batching = self.batching.load();
        let Entry { received, deadline, level, under_way, .. } = entry;
        let (version, batching) = (&|| -> KeepAlive { version.clone() }, &*batching);
        // Nobody waits for a copy.
        let may_wait = batching.waits_when_full && entry.role == Role::Primary;
        let tier = self.tier_of(level, under_way, batching);
        let incoming = Incoming { version, lane, tier, received, deadline, may_wait, under_way, batching, decode };
        self.check_place(&incoming)?;
        let place = self.lane(tier, lane);
        if bytes <= IN_PLACE_BYTES {
            let lane = &mut *lock(place);
            if let Some(decoded) = self.decode_in_place(lane, &incoming)? {
                (entry.rows, entry.flat) = (decoded.request.rows, decoded.request.flat);
                return Ok(self.enter(lane, entry, &decoded, batching));
            }
        }
        let (own, columns, decoded) = self.decode_apart(&incoming)?;
        (entry.rows, entry.flat) = (decoded.request.rows, decoded.request.flat);
        Ok(self.enter_apart(&mut lock(place), (own, columns), entry, &decoded, batching))
    }

    /// Decodes a small request where it stays, in the open batch; none where it turns out to be large.
    fn decode_in_place(&self, lane: &mut Lane, incoming: &Incoming<'_>) -> Result<Option<Decoded>, Status> {
        let open = lane.open.get_or_insert_with(|| self.open_batch(incoming));
        lane.marks.clear();
        lane.marks.extend(open.columns.iter().map(|column| column.extent()));
        let decoded = self.decode(open, &mut lane.shapes, &lane.marks, IN_PLACE_BYTES, incoming);
        if !decoded.as_ref().is_ok_and(|decoded| decoded.as_ref().is_some_and(|decoded| decoded.request.rows > 0)) {
            open.columns.iter_mut().zip(&lane.marks).for_each(|(column, mark)| column.truncate(*mark));
            // An empty batch must not stay: it would hold the version for ever.
            lane.open.take_if(|open| open.rows == 0);
        }
        decoded
    }

    /// Decodes a request for a batch of its own, without the lane's lock: the batch, and the columns that are to be a piece
    /// of it or of another.
    fn decode_apart(&self, incoming: &Incoming<'_>) -> Result<(Batch, Vec<Lease>, Decoded), Status> {
        let mut own = self.open_batch(incoming);
        let (mut shapes, marks) = (Vec::new(), vec![0; own.columns.len()]);
        let decoded = self.decode(&mut own, &mut shapes, &marks, usize::MAX, incoming)?;
        let decoded = decoded.ok_or_else(|| Status::internal("the request could not be decoded"))?;
        own.unbatched = decoded.request.unbatched;
        if own.unbatched || self.fixed_shapes.is_none() {
            own.shapes = shapes.into();
        }
        let columns = std::mem::replace(&mut own.columns, self.columns.lease());
        Ok((own, columns, decoded))
    }

    /// Decodes a request behind the marks and counts it in; none where it wants more than `most` bytes. What is not
    /// counted in takes no memory.
    fn decode(
        &self,
        batch: &mut Batch,
        shapes: &mut Vec<Vec<usize>>,
        marks: &[usize],
        most: usize,
        incoming: &Incoming<'_>,
    ) -> Result<Option<Decoded>, Status> {
        let Batch { columns, memory, .. } = batch;
        let before: usize = columns.iter().map(|column| column.byte_size()).sum();
        let mut room = Taking::new(memory, most);
        let decoded =
            catch_unwind(AssertUnwindSafe(|| (incoming.decode)(&mut Page { columns, shapes, room: &mut room })));
        if room.passed {
            room.settle(0)?;
            return Ok(None);
        }
        let bytes = columns.iter().map(|column| column.byte_size()).sum::<usize>() - before;
        let decoded = decoded.unwrap_or_else(|_| Err(Status::internal("the request could not be decoded")));
        let bytes = if decoded.as_ref().is_ok_and(|request| request.rows > 0) { bytes } else { 0 };
        let settled = room.settle(bytes);
        let request = decoded?;
        settled?;
        let shapes = self.fixed_shapes.as_deref().filter(|_| !request.unbatched).unwrap_or(shapes);
        let checked = check_extents(self.signature(), columns, marks, shapes, request.rows).and_then(|()| {
            check_empty(self.signature(), shapes, request.rows, incoming.batching.max_queued_rows.max(bytes))
        });
        let admitted = checked.and_then(|()| self.admit(request.rows, incoming));
        let Admitted { excess, beyond } = admitted.inspect_err(|_| memory.shrink(bytes))?;
        let alone = request.unbatched || self.is_kept_apart() || bytes > ALONE_BYTES || excess > 0;
        Ok(Some(Decoded { request, bytes, excess, beyond, alone }))
    }

    fn open_batch(&self, incoming: &Incoming<'_>) -> Batch {
        self.note_use(incoming.lane);
        self.batch((incoming.version)(), (incoming.tier, incoming.lane), incoming.received)
    }

    fn batch(&self, version: KeepAlive, (tier, lane): (usize, usize), opened: Instant) -> Batch {
        Batch {
            version,
            columns: self.columns.lease(),
            pieces: Vec::new(),
            kept: None,
            shapes: self.fixed_shapes.clone().unwrap_or_default(),
            ragged: false,
            largest: 0,
            entries: Vec::with_capacity(64),
            rows: 0,
            waiting: Arc::new(Waiting::of_tier(tier)),
            oversized: false,
            unbatched: false,
            opened,
            due: false,
            close_reason: CloseReason::Idle,
            memory: self.served.memory.reservation(),
            lane,
        }
    }

    /// Whether a request may join an open batch; `shapes` are those of its inputs.
    fn may_join(&self, open: &Batch, shapes: &[Vec<usize>], decoded: &Decoded, batching: &Batching) -> bool {
        !decoded.alone
            && open.rows + decoded.request.rows <= batching.max_batch_rows
            && self.is_of_shapes(open, shapes, decoded, batching)
    }

    /// Whether a request's shapes are those of an open batch, or both can be padded to the same.
    fn is_of_shapes(&self, open: &Batch, shapes: &[Vec<usize>], decoded: &Decoded, batching: &Batching) -> bool {
        if self.fixed_shapes.is_some() || *open.shapes == *shapes {
            return true;
        }
        let rows = open.rows + decoded.request.rows;
        let largest = open.largest.max(decoded.bytes);
        let bytes = |wide: Vec<Vec<usize>>| padded_bytes(&self.signature().inputs, &wide, rows, largest);
        batching.pad_variable_length_inputs
            && common(&open.shapes, shapes).is_some_and(|wide| bytes(wide) <= BATCH_BYTES)
    }

    /// Enters a request whose rows stand behind the marks; takes them to another batch where it must not join the open
    /// one.
    fn enter(&self, lane: &mut Lane, entry: Entry, decoded: &Decoded, batching: &Batching) -> Appended {
        let Some(open) = lane.open.as_ref().filter(|_| entry.rows > 0) else {
            return Appended { request: decoded.request, urgency: Urgency::Never, place: None };
        };
        let closed = lane.closed.len();
        let joins = open.rows > 0 && self.may_join(open, &lane.shapes, decoded, batching);
        if !joins {
            self.turn_to_its_batch(lane, entry.received, decoded, batching);
        }
        let fits = lane.closed.len() == closed;
        self.seat(lane, entry, decoded, fits, batching)
    }

    /// Makes the batch that a request joins the open one, and takes its rows there.
    fn turn_to_its_batch(&self, lane: &mut Lane, received: Instant, decoded: &Decoded, batching: &Batching) {
        let alike = |other: &Batch| !decoded.alone && self.is_of_shapes(other, &lane.shapes, decoded, batching);
        let other = lane.others.iter().position(alike);
        let other = other.map(|at| lane.others.swap_remove(at));
        let other = other.and_then(|other| match self.may_join(&other, &lane.shapes, decoded, batching) {
            true => Some(other),
            false => {
                lane.close(other, CloseReason::Full);
                None
            }
        });
        let Some(open) = lane.open.as_mut() else { return };
        if other.is_none() && open.rows == 0 {
            open.unbatched = decoded.request.unbatched;
            if open.unbatched || self.fixed_shapes.is_none() {
                open.shapes = lane.shapes.as_slice().into();
            }
            return;
        }
        let mut next = other.unwrap_or_else(|| Batch {
            unbatched: decoded.request.unbatched,
            shapes: match &self.fixed_shapes {
                Some(fixed) if !decoded.request.unbatched => fixed.clone(),
                _ => lane.shapes.as_slice().into(),
            },
            ..self.batch(open.version.clone(), (open.waiting.tier, open.lane), received)
        });
        for ((column, old), mark) in next.columns.iter_mut().zip(&mut open.columns).zip(&lane.marks) {
            column.extend(old, *mark..old.extent());
            old.truncate(*mark);
        }
        next.memory.join(open.memory.split(decoded.bytes));
        let before = std::mem::replace(open, next);
        self.leave(lane, before, decoded);
    }

    /// The batch that was open is not the one that a request joins: it closes, unless requests of its shapes may come.
    fn leave(&self, lane: &mut Lane, before: Batch, decoded: &Decoded) {
        let now = lane.open.as_ref().map(|open| &*open.shapes);
        if before.rows == 0 {
            return;
        }
        if decoded.alone {
            lane.close(before, CloseReason::Alone);
        } else if self.fixed_shapes.is_some() || now == Some(&*before.shapes) {
            lane.close(before, CloseReason::Full);
        } else {
            lane.keep_open(before);
        }
    }

    /// Enters a request that has a batch of its own: that becomes the open one, or its rows are a piece of the one that is.
    fn enter_apart(
        &self,
        lane: &mut Lane,
        (own, mut columns): (Batch, Vec<Lease>),
        entry: Entry,
        decoded: &Decoded,
        batching: &Batching,
    ) -> Appended {
        if entry.rows == 0 {
            return Appended { request: decoded.request, urgency: Urgency::Never, place: None };
        }
        let closed = lane.closed.len();
        let joined = |open: &&mut Batch| self.may_join(open, &own.shapes, decoded, batching);
        match lane.open.as_mut().filter(joined) {
            Some(open) => {
                lane.shapes = own.shapes.to_vec();
                open.memory.join(own.memory);
            }
            None => {
                lane.shapes = own.shapes.to_vec();
                lane.marks = vec![0; own.columns.len()];
                let before = lane.open.replace(own);
                self.turn_to_its_batch(lane, entry.received, decoded, batching);
                if let Some(before) = before {
                    self.leave(lane, before, decoded);
                }
            }
        }
        lane.open.iter_mut().for_each(|open| open.push_piece(std::mem::take(&mut columns)));
        let fits = lane.closed.len() == closed;
        self.seat(lane, entry, decoded, fits, batching)
    }

    /// Adds the entry to the open batch, which has its rows already; closes the batch where it is full.
    fn seat(&self, lane: &mut Lane, mut entry: Entry, decoded: &Decoded, fits: bool, batching: &Batching) -> Appended {
        let request = decoded.request;
        let Some(open) = lane.open.as_mut() else {
            return Appended { request, urgency: Urgency::Now, place: None };
        };
        let received = entry.received;
        if open.rows == 0 {
            open.opened = received;
        }
        let (rows, beyond) = (entry.rows, decoded.beyond);
        let place = Some(Place { waiting: open.waiting.clone(), rows, seat: open.rows, beyond });
        (entry.first_row, entry.seat) = (open.rows, open.rows);
        if self.fixed_shapes.is_none() && *open.shapes != *lane.shapes {
            open.widen(&lane.shapes, &mut entry);
        }
        open.rows += entry.rows;
        open.waiting.enter(Count { rows, beyond: usize::from(beyond) }, decoded.excess);
        open.oversized = decoded.excess > 0;
        open.largest = open.largest.max(decoded.bytes);
        entry.entered = Instant::now();
        open.entries.push(entry);
        let released = open.due;
        let full = match (decoded.alone, open.rows >= batching.max_batch_rows) {
            (true, _) => Some(CloseReason::Alone),
            (false, true) => Some(CloseReason::Full),
            (false, false) => (open.memory.bytes() >= BATCH_BYTES).then_some(CloseReason::Bytes),
        };
        let due = batching.timeout_us == 0 && received.saturating_duration_since(open.opened) > DUE_AFTER;
        if let Some(reason) = full {
            lane.close_open(reason);
        } else if due && !open.due {
            open.due = true;
            return Appended { request, urgency: Urgency::Now, place };
        }
        let urgency = match (full.is_some(), fits) {
            (true, _) => Urgency::Now,
            (false, false) => Urgency::NowAndWhenIdle,
            (false, true) if released => Urgency::Released,
            (false, true) => Urgency::WhenIdle,
        };
        Appended { request, urgency, place }
    }
}

/// Lists without an element cost nothing to send, so that no limit of bytes bounds them, but each takes time to run and
/// memory to be logged.
fn check_empty(signature: &Signature, shapes: &[Vec<usize>], rows: usize, most: usize) -> Result<(), Status> {
    for (spec, inner) in signature.inputs.iter().zip(shapes) {
        let Some(empty) = inner.iter().position(|size| *size == 0) else { continue };
        let name = &spec.name;
        let lists = inner[..empty].iter().fold(rows, |lists, size| lists.saturating_mul(*size));
        let others = inner.iter().filter(|size| **size > 0).fold(rows, |all, size| all.saturating_mul(*size));
        if others.saturating_mul(size_of::<u64>()) > isize::MAX as usize {
            let shape = show_shape(inner);
            return Err(Status::invalid(format!("input '{name}' has rows of shape {shape}, which no array can have")));
        }
        if lists > most {
            return Err(Status::invalid(format!(
                "input '{name}' has {lists} lists without an element: send at most {most} of these at once"
            )));
        }
    }
    Ok(())
}

/// Every input must have grown by exactly the request's rows; a name sent twice would break that.
fn check_extents(
    signature: &Signature,
    columns: &[Lease],
    marks: &[usize],
    shapes: &[Vec<usize>],
    rows: usize,
) -> Result<(), Status> {
    for (index, spec) in signature.inputs.iter().enumerate() {
        let grown = columns[index].extent() - marks[index];
        if grown != rows * Column::row_extent(spec.dtype, &shapes[index]) {
            return Err(Status::invalid(format!("input '{}' is given twice or not at all", spec.name)));
        }
    }
    Ok(())
}
