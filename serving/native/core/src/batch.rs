//! Requests that run together: their rows in one column per input, and what each request is owed.
//! The queue fills it on an I/O thread, an executor runs it, and it comes back finished to the I/O thread and the log.

use std::sync::Arc;
use std::time::Instant;

use crate::column::Column;
use crate::drain::Guest;
use crate::pool::Lease;
use crate::request_id::RequestId;
use crate::signature::TensorSpec;
use crate::status::Status;
use crate::version::{ServedSignature, Version};

/// Why a request is in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// A client waits for it.
    Primary = 0,
    /// A copy for another version; nobody waits.
    Shadow = 1,
}

/// One request's place in a batch.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its first row.
    pub first_row: usize,
    /// Its number of rows.
    pub rows: usize,
    /// Whether its inputs came flat, and its outputs go so.
    pub flat: bool,
    /// Where its answer goes; none for a shadow.
    pub slot: Option<u64>,
    /// Its identity.
    pub id: RequestId,
    /// When its last byte had come.
    pub received: Instant,
    /// When its answer is worth nothing any more.
    pub deadline: Instant,
    /// Primary or shadow.
    pub role: Role,
    /// Whether its answer is logged.
    pub logged: bool,
    /// Whether its client went away.
    pub cancelled: bool,
    /// What a drain waits for; none where it waits for the client's connection.
    pub guest: Option<Arc<Guest>>,
}

/// Requests whose rows share columns.
#[derive(Debug)]
pub struct Batch {
    /// Keeps the version alive.
    pub version: Arc<Version>,
    /// Rows of each input.
    pub columns: Vec<Lease>,
    /// Inner dimensions of each input.
    pub shapes: Arc<[Vec<usize>]>,
    /// Who is in it.
    pub entries: Vec<Entry>,
    /// Rows in all.
    pub rows: usize,
    /// Whether it is one request whose inputs have exactly the shapes given, without an axis for rows.
    pub whole: bool,
    /// When its first request came.
    pub opened: Instant,
    /// The I/O thread that filled it and gets it back.
    pub lane: usize,
}

impl Batch {
    /// Takes the rows of dead entries out, so that nobody computes them. Returns the dead entries.
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
}

/// What an executor gets: columns to own, and whose rows they are.
#[derive(Debug)]
pub struct Work {
    /// The signature's queue, with names, specs and the version's identity.
    pub served: Arc<ServedSignature>,
    /// One column per input, in the signature's order; goes back to its pool when dropped.
    pub columns: Vec<Lease>,
    /// Inner dimensions of each input.
    pub shapes: Arc<[Vec<usize>]>,
    /// Rows in all, copies that fill it up to an allowed size among them.
    pub rows: usize,
    /// Whether it is one request whose inputs have exactly the shapes given, without an axis for rows.
    pub whole: bool,
    /// Request i owns rows `[offsets[i], offsets[i + 1])`; rows after the last are copies.
    pub offsets: Vec<usize>,
}

/// One output of a batch.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its elements.
    pub column: Column,
    /// Its shape; of rows, batch first.
    pub shape: Vec<usize>,
}

impl Output {
    /// Dimensions of a row, where the whole may count as one.
    pub fn inner(&self, whole: bool) -> &[usize] {
        if whole { &self.shape } else { self.shape.get(1..).unwrap_or(&[]) }
    }
}

/// What an executor gives: the declared outputs in the signature's order, and errors by row.
#[derive(Debug, Default)]
pub struct Answer {
    /// None where the model left one out.
    pub outputs: Vec<Option<Output>>,
    /// Row and what went wrong with it.
    pub errors: Vec<(usize, Status)>,
}

/// A run of requests that one executor call answered.
#[derive(Debug)]
pub struct Part {
    /// Positions of its entries in the batch.
    pub entries: std::ops::Range<usize>,
    /// The batch row that is row 0 of its outputs.
    pub first_row: usize,
    /// Whether its outputs are one request's as they are, without an axis for rows.
    pub whole: bool,
    /// Outputs with their inner dimensions, or why there are none.
    pub outputs: Result<Vec<Output>, Status>,
    /// Position of an entry and its own error.
    pub errors: Vec<(usize, Status)>,
}

impl Part {
    /// Why this entry failed, if it did.
    pub fn error_of(&self, entry: usize) -> Option<&Status> {
        match &self.outputs {
            Err(status) => Some(status),
            Ok(_) => self.errors.iter().find(|(at, _)| *at == entry).map(|(_, status)| status),
        }
    }
}

/// A batch that ran, on its way back to the clients and the log.
#[derive(Debug)]
pub struct Finished {
    /// Keeps the version alive until the answers are written.
    pub version: Arc<Version>,
    /// The queue it came from.
    pub served: Arc<ServedSignature>,
    /// Who is in it.
    pub entries: Vec<Entry>,
    /// The inputs as they came, where something is logged.
    pub inputs: Vec<Column>,
    /// Inner dimensions of each input.
    pub shapes: Arc<[Vec<usize>]>,
    /// The answers, in the order of the entries.
    pub parts: Vec<Part>,
}
