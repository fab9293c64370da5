//! TensorFlow Serving's error messages for JSON values that do not fit: its first complaint, in its order and words.
//! Called only after a value has failed, so that good requests pay nothing for it; one pass, over a megabyte at most.

use crate::json::scalar::read_scalar;
use crate::json::scanner::Scanner;
use crate::signatures::{TensorSpec, show_shape};
use crate::status::Status;
use crate::tensors::Column;

/// Most nested lists that are told apart, as many as a tensor may have dimensions.
pub const MAX_RANK: usize = 254;

/// Values of more bytes are refused with what was found while they were read.
const EXPLAINED: usize = 1 << 20;

/// How deeply the first elements of a value are nested in lists.
pub fn nesting(scanner: &Scanner<'_>) -> Result<usize, Status> {
    let mut ahead = *scanner;
    let mut depth = 0;
    while ahead.eat(b'[') {
        depth += 1;
        if depth > MAX_RANK {
            return Err(Status::invalid(format!("a tensor has more than {MAX_RANK} dimensions")));
        }
    }
    Ok(depth)
}

/// The complaint about a value whose form its own first elements give. Its dimensions where it agrees with itself; none
/// where it is too long to be looked through once more.
#[cold]
pub fn complaint(value: &Scanner<'_>, spec: &TensorSpec) -> Result<Option<Vec<usize>>, Status> {
    let mut near = value.ahead(EXPLAINED);
    if let Err(malformed) = near.skip() {
        return if value.left() > EXPLAINED { Ok(None) } else { Err(malformed) };
    }
    let dims = vec![None; nesting(value)?];
    let mut walk = Walk { spec, dims, open: Vec::new(), found: None, scratch: Column::new(spec.dtype) };
    walk.run(*value)?;
    match walk.found {
        Some(found) => Err(found),
        None => Ok(Some(walk.dims.into_iter().flatten().collect())),
    }
}

/// The complaint about a row that is like no row before it.
#[cold]
pub fn unlike(first: &[usize], dims: &[usize]) -> Status {
    let (wanted, found) = (first.iter().product::<usize>(), dims.iter().product::<usize>());
    if wanted == found {
        return Status::invalid(format!("Expecting shape {} but got: {}", show_shape(first), show_shape(dims)));
    }
    Status::invalid(format!("Expecting tensor size: {wanted} but got: {found}"))
}

/// One pass over a value. The first complaint is the one about the outermost list that is too long or too short, of those
/// that hold whatever is wrong first.
struct Walk<'a> {
    spec: &'a TensorSpec,
    /// The lengths of the first lists of each level, once they have ended.
    dims: Vec<Option<usize>>,
    /// The elements so far of the lists that have not ended.
    open: Vec<usize>,
    found: Option<Status>,
    scratch: Column,
}

impl Walk<'_> {
    fn run(&mut self, mut scanner: Scanner<'_>) -> Result<(), Status> {
        loop {
            let opened = self.found.is_none() && scanner.peek() == b'[' && self.open.len() < self.dims.len();
            if opened {
                scanner.eat(b'[');
                self.open.push(0);
            } else {
                if self.found.is_none() {
                    self.found = self.element(scanner).err();
                }
                scanner.skip()?;
            }
            loop {
                let Some(count) = self.open.last_mut() else { return Ok(()) };
                if scanner.more(b']', *count == 0)? {
                    *count += 1;
                    break;
                }
                self.close();
            }
        }
    }

    /// Whether an element may stand here.
    fn element(&mut self, mut scanner: Scanner<'_>) -> Result<(), Status> {
        let (level, rank) = (self.open.len(), self.dims.len());
        if scanner.peek() == b'[' {
            return Err(Status::invalid(format!("Encountered list at unexpected level: {level} expected < {rank}")));
        }
        if level != rank {
            return Err(wrong_level(&scanner, level, rank));
        }
        self.scratch.truncate(0);
        read_scalar(&mut scanner, self.spec, &mut self.scratch, level)
    }

    /// A list has ended.
    fn close(&mut self) {
        let Some(count) = self.open.pop() else { return };
        let level = self.open.len();
        let wanted = *self.dims[level].get_or_insert(count);
        if wanted != count {
            self.found = Some(wrong_size(count, level, wanted));
        }
    }
}

/// A value where a list is expected, or the other way round.
#[cold]
pub fn wrong_level(scanner: &Scanner<'_>, level: usize, rank: usize) -> Status {
    let value = scanner.show_value();
    Status::invalid(format!(
        "JSON Value: {value} found at incorrect level: {} in the JSON DOM. Expected at level: {rank}",
        level + 1,
    ))
}

/// A list that is too long or too short.
#[cold]
pub fn wrong_size(count: usize, level: usize, wanted: usize) -> Status {
    Status::invalid(format!("Encountered list at unexpected size: {count} at level: {level} expected size: {wanted}"))
}
