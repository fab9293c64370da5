//! The `data` of a tensor in JSON: a flat list in row-major order, or lists within lists as its shape has them.

use half::f16;

use crate::dtype::DType;
use crate::json::scalar::read_base64;
use crate::json::scanner::Scanner;
use crate::open_inference::datatype;
use crate::signatures::{TensorSpec, show_shape};
use crate::status::Status;
use crate::tensors::{Column, Room, push_number};

/// Elements that memory is taken for at a time.
const STEP: usize = 4096;

/// Appends the elements of a tensor of this shape.
pub fn read(
    mut values: Scanner<'_>,
    spec: &TensorSpec,
    shape: &[usize],
    elements: usize,
    column: &mut Column,
    room: &mut dyn Room,
) -> Result<(), Status> {
    let mut list = ValueList { spec, shape, elements, read: 0, taken: column.byte_size(), column, room };
    let mut ahead = values;
    if !ahead.eat(b'[') {
        let found = values.show_value();
        return Err(Status::invalid(format!("input '{}' has data {found}: send a list of values", spec.name)));
    }
    if ahead.peek() == b'[' {
        list.nested(&mut values, 0)?;
    } else {
        list.flat(&mut values)?;
    }
    if list.read != elements {
        return Err(list.wrong_count(list.read));
    }
    list.take()
}

struct ValueList<'v> {
    spec: &'v TensorSpec,
    shape: &'v [usize],
    elements: usize,
    read: usize,
    /// Bytes of the column that memory was taken for.
    taken: usize,
    column: &'v mut Column,
    room: &'v mut dyn Room,
}

impl ValueList<'_> {
    fn flat(&mut self, values: &mut Scanner<'_>) -> Result<(), Status> {
        values.eat(b'[');
        let before = self.read;
        while values.more(b']', self.read == before)? {
            self.element(values)?;
        }
        Ok(())
    }

    fn nested(&mut self, values: &mut Scanner<'_>, level: usize) -> Result<(), Status> {
        let mut count = 0;
        if level + 1 >= self.shape.len() {
            let before = self.read;
            self.flat(values)?;
            return self.check_count(self.read - before, level);
        }
        values.eat(b'[');
        while values.more(b']', count == 0)? {
            if values.peek() != b'[' {
                let found = values.show_value();
                return Err(self.unlike(&format!("has {found} where its level {} has lists", level + 1)));
            }
            self.nested(values, level + 1)?;
            count += 1;
        }
        self.check_count(count, level)
    }

    fn check_count(&self, count: usize, level: usize) -> Result<(), Status> {
        match self.shape.get(level) {
            Some(wanted) if *wanted != count => Err(self.unlike(&format!("has a list of {count} at level {level}"))),
            _ => Ok(()),
        }
    }

    fn element(&mut self, values: &mut Scanner<'_>) -> Result<(), Status> {
        if self.read == self.elements {
            return Err(self.wrong_count(self.read + 1));
        }
        read_element(values, self.spec, self.column)?;
        self.read += 1;
        if self.read.is_multiple_of(STEP) { self.take() } else { Ok(()) }
    }

    fn take(&mut self) -> Result<(), Status> {
        let bytes = self.column.byte_size();
        let more = bytes - std::mem::replace(&mut self.taken, bytes);
        self.room.take(more)
    }

    #[cold]
    fn wrong_count(&self, found: usize) -> Status {
        let more = if found > self.elements { " or more" } else { "" };
        self.unlike(&format!("has {found}{more} values, not {}", self.elements))
    }

    #[cold]
    fn unlike(&self, what: &str) -> Status {
        Status::invalid(format!(
            "the data of input '{}' {what}: its shape is {}",
            self.spec.name,
            show_shape(self.shape)
        ))
    }
}

#[inline]
fn read_element(values: &mut Scanner<'_>, spec: &TensorSpec, column: &mut Column) -> Result<(), Status> {
    let words = match column {
        Column::Raw(words) => words,
        Column::Strings(strings) => {
            return match values.peek() {
                b'"' => strings.push_with(|out| values.string_into(out)),
                b'{' => strings.push_with(|out| read_base64(values, out)),
                _ => Err(wrong_value(values, spec)),
            };
        }
    };
    match (spec.dtype, values.peek()) {
        (DType::Bool, b't' | b'f') => {
            let truth = values.word(b"true");
            if !truth && !values.word(b"false") {
                return Err(values.error("Invalid value."));
            }
            words.push(&[u8::from(truth)]);
        }
        (dtype, b'-' | b'0'..=b'9' | b'N' | b'I') => {
            let start = *values;
            let number = values.number()?;
            match dtype {
                // The nearest that there is, infinity beyond the largest.
                DType::Float16 => words.push(&f16::from_f64(number.as_f64()).to_le_bytes()),
                DType::Float32 => words.push(&(number.as_f64() as f32).to_le_bytes()),
                DType::Float64 => words.push(&number.as_f64().to_le_bytes()),
                dtype => push_number(number, dtype, words).ok_or_else(|| wrong_value(&start, spec))?,
            }
        }
        _ => return Err(wrong_value(values, spec)),
    }
    Ok(())
}

#[cold]
fn wrong_value(values: &Scanner<'_>, spec: &TensorSpec) -> Status {
    if let Err(malformed) = { *values }.skip() {
        return malformed;
    }
    let (found, dtype) = (values.show_value(), datatype::name(spec.dtype));
    Status::invalid(format!("input '{}' has {found} in its data, which is no {dtype}", spec.name))
}
