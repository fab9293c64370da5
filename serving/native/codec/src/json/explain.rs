//! TensorFlow Serving's error messages for JSON values that do not fit: its first complaint, in its order and words.
//! Called only after a value has failed, so that good requests pay nothing for it.

use crate::json::scalar::read_scalar;
use crate::json::scanner::Scanner;
use crate::signatures::{TensorSpec, show_shape};
use crate::status::Status;
use crate::tensors::Column;

/// Most nested lists that are told apart, as many as a tensor may have dimensions.
pub const MAX_RANK: usize = 254;

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

/// The complaint about a value whose form its own first elements give; none where it agrees with itself.
#[cold]
pub fn complaint(value: &Scanner<'_>, spec: &TensorSpec) -> Result<Vec<usize>, Status> {
    { *value }.skip()?;
    let mut dims = Vec::new();
    dense_shape(*value, nesting(value)?, &mut dims)?;
    let mut walk = Walk { spec, dims: &dims, scratch: Column::new(spec.dtype) };
    walk.level(&mut { *value }, 0)?;
    Ok(dims)
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

fn dense_shape(mut value: Scanner<'_>, depth: usize, dims: &mut Vec<usize>) -> Result<(), Status> {
    for _ in 0..depth {
        value.eat(b'[');
        let (first, mut rest, mut count) = (value, value, 0);
        while rest.more(b']', count == 0)? {
            rest.skip()?;
            count += 1;
        }
        dims.push(count);
        if count == 0 {
            return Ok(());
        }
        value = first;
    }
    Ok(())
}

struct Walk<'a> {
    spec: &'a TensorSpec,
    dims: &'a [usize],
    scratch: Column,
}

impl Walk<'_> {
    fn level(&mut self, scanner: &mut Scanner<'_>, level: usize) -> Result<(), Status> {
        let rank = self.dims.len();
        if scanner.peek() != b'[' {
            if level != rank {
                return Err(wrong_level(scanner, level, rank));
            }
            self.scratch.truncate(0);
            return read_scalar(scanner, self.spec, &mut self.scratch, level);
        }
        if level >= rank {
            return Err(Status::invalid(format!("Encountered list at unexpected level: {level} expected < {rank}")));
        }
        let (start, mut count) = (*scanner, 0);
        scanner.eat(b'[');
        while scanner.more(b']', count == 0)? {
            scanner.skip()?;
            count += 1;
        }
        if count != self.dims[level] {
            return Err(wrong_size(count, level, self.dims[level]));
        }
        *scanner = start;
        scanner.eat(b'[');
        let mut first = true;
        while scanner.more(b']', first)? {
            first = false;
            self.level(scanner, level + 1)?;
        }
        Ok(())
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
