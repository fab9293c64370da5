//! Nested lists of JSON values, appended to a column row by row; the first row decides on open dimensions.

use crate::json::explain;
use crate::json::scalar::{read_floats, read_scalar};
use crate::json::scanner::Scanner;
use crate::signatures::TensorSpec;
use crate::status::{Code, Status};
use crate::tensors::{Column, Room};

/// Memory is taken for so many bytes, and looked after once in so many elements.
const STEP: usize = 16 << 10;
const COUNTED: usize = 2048;

/// What the rows of one input have in common so far.
#[derive(Debug, Default)]
pub struct RowShape {
    dims: Vec<Option<usize>>,
    rows: usize,
    /// Whether the first row decides if there are lists.
    may_be_flat: bool,
    flat: bool,
    /// Whether the first row decides how deep they are nested.
    any_rank: bool,
    /// Bytes of the column that memory was taken for.
    taken: usize,
}

impl RowShape {
    /// The dimensions that the signature fixes for one row of a tensor.
    pub fn of_row(spec: &TensorSpec) -> RowShape {
        let inner = if spec.is_free() { spec.shape.get(1..).unwrap_or(&[]) } else { spec.inner() };
        RowShape { may_be_flat: spec.may_be_flat(), ..RowShape::new(spec, inner) }
    }

    /// Those of a whole tensor that counts as one row.
    pub fn of_whole(spec: &TensorSpec) -> RowShape {
        RowShape::new(spec, &spec.shape)
    }

    fn new(spec: &TensorSpec, dims: &[i64]) -> RowShape {
        let dims = dims.iter().map(|dim| usize::try_from(*dim).ok()).collect();
        RowShape { dims, any_rank: spec.admits_any_rank(), ..RowShape::default() }
    }

    /// Rows read so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether the rows are bare elements where the signature has lists of one.
    pub fn is_flat(&self) -> bool {
        self.flat
    }

    /// All dimensions; 0 where no list was seen.
    pub fn dims(&self) -> Vec<usize> {
        self.dims.iter().map(|dim| dim.unwrap_or(0)).collect()
    }
}

/// Memory for a column, taken as it grows.
struct Growth<'a> {
    room: &'a mut dyn Room,
    /// Bytes of the column that were taken so far.
    taken: &'a mut usize,
}

impl Growth<'_> {
    #[inline]
    fn note(&mut self, column: &Column) -> Result<(), Status> {
        let bytes = column.byte_size();
        if bytes < *self.taken + STEP {
            return Ok(());
        }
        self.room.take(bytes - *self.taken)?;
        *self.taken = bytes;
        Ok(())
    }
}

/// Appends one row.
#[inline]
pub fn read_row(
    scanner: &mut Scanner<'_>,
    spec: &TensorSpec,
    column: &mut Column,
    shape: &mut RowShape,
    room: &mut dyn Room,
) -> Result<(), Status> {
    let start = *scanner;
    let first = shape.rows == 0;
    if first && shape.may_be_flat {
        shape.flat = scanner.peek() != b'[';
    }
    if first && shape.any_rank {
        shape.dims = vec![None; explain::nesting(scanner)?];
    }
    if first {
        shape.taken = column.byte_size();
    }
    shape.rows += 1;
    let dims = if shape.flat { &mut [][..] } else { &mut shape.dims };
    let mut growth = Growth { room, taken: &mut shape.taken };
    let read = read_level(scanner, spec, column, dims, 0, &mut growth).and_then(|()| growth.note(column));
    read.map_err(|why| {
        let before = if shape.flat { Vec::new() } else { shape.dims() };
        explained(why, &start, spec, (!first).then_some(&before))
    })
}

/// TensorFlow Serving's own complaint about a row, where it has one; `before` are the dimensions of earlier rows.
#[cold]
fn explained(why: Status, row: &Scanner<'_>, spec: &TensorSpec, before: Option<&Vec<usize>>) -> Status {
    if why.code == Code::ResourceExhausted {
        return why;
    }
    match (explain::complaint(row, spec), before) {
        (Err(theirs), _) => theirs,
        (Ok(Some(dims)), Some(before)) if dims != *before => explain::unlike(before, &dims),
        _ => why,
    }
}

fn read_level(
    scanner: &mut Scanner<'_>,
    spec: &TensorSpec,
    column: &mut Column,
    dims: &mut [Option<usize>],
    level: usize,
    growth: &mut Growth<'_>,
) -> Result<(), Status> {
    if level == dims.len() {
        return read_scalar(scanner, spec, column, level);
    }
    if scanner.peek() != b'[' {
        return Err(explain::wrong_level(scanner, level, dims.len()));
    }
    scanner.eat(b'[');
    let mut count = 0;
    while scanner.more(b']', count == 0)? {
        if dims[level].is_some_and(|wanted| count >= wanted) {
            // Only counted, for the message.
            scanner.skip()?;
        } else if level + 1 == dims.len() {
            read_scalar(scanner, spec, column, level + 1)?;
            let most = dims[level].map_or(COUNTED, |wanted| (wanted - count - 1).min(COUNTED));
            let more = read_floats(scanner, spec.dtype, column, most);
            count += more;
            if more > 0 || count % COUNTED == COUNTED - 1 {
                growth.note(column)?;
            }
        } else {
            read_level(scanner, spec, column, dims, level + 1, growth)?;
        }
        count += 1;
    }
    match dims[level] {
        Some(wanted) if wanted != count => Err(explain::wrong_size(count, level, wanted)),
        _ => {
            dims[level] = Some(count);
            Ok(())
        }
    }
}
