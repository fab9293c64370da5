//! The protobuf wire format: fields read without copying, fields written into one buffer. It knows no message.

use crate::status::Status;

/// Wire type of a varint.
pub const VARINT: u8 = 0;
/// Wire type of 8 bytes.
pub const FIXED64: u8 = 1;
/// Wire type of bytes with a length: strings, messages and packed numbers.
pub const BYTES: u8 = 2;
/// Wire type of 4 bytes.
pub const FIXED32: u8 = 5;

const GROUP_START: u8 = 3;
const GROUP_END: u8 = 4;

/// What one field held.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A varint.
    Varint(u64),
    /// Eight bytes.
    Fixed64(&'a [u8]),
    /// Bytes with a length.
    Bytes(&'a [u8]),
    /// Four bytes.
    Fixed32(&'a [u8]),
}

/// A field's number and what it held.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The field's number.
    pub number: u32,
    /// Its content.
    pub value: Value<'a>,
}

impl<'a> Field<'a> {
    /// Its bytes, or an error that names the message.
    pub fn bytes(&self, message: &str) -> Result<&'a [u8], Status> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(wrong_type(message, self.number)),
        }
    }

    /// Its varint, or an error that names the message.
    pub fn varint(&self, message: &str) -> Result<u64, Status> {
        match self.value {
            Value::Varint(value) => Ok(value),
            _ => Err(wrong_type(message, self.number)),
        }
    }

    /// Its UTF-8 text, or an error that names the message.
    pub fn text(&self, message: &str) -> Result<&'a str, Status> {
        text(self.bytes(message)?, message, self.number)
    }
}

/// The text of a field, or an error that names the message.
pub fn text<'a>(bytes: &'a [u8], message: &str, number: u32) -> Result<&'a str, Status> {
    std::str::from_utf8(bytes).map_err(|_| Status::invalid(format!("{message} field {number} is not UTF-8")))
}

fn wrong_type(message: &str, number: u32) -> Status {
    Status::invalid(format!("malformed protobuf: {message} field {number} has the wrong wire type"))
}

/// What a message is looked through for has its field among so many first ones.
const FIRST_FIELDS: usize = 16;

/// The bytes of a field that whoever wrote the message put near its beginning, as writers put those of low numbers.
pub fn first(message: &[u8], number: u32) -> Option<&[u8]> {
    let mut reader = Reader::new(message);
    for _ in 0..FIRST_FIELDS {
        let found = reader.next_field().ok()??;
        if found.number == number {
            return found.bytes("").ok();
        }
    }
    None
}

fn malformed(what: &str) -> Status {
    Status::invalid(format!("malformed protobuf: {what}"))
}

/// Reads the fields of one message, one after another.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of a message.
    pub fn new(message: &'a [u8]) -> Reader<'a> {
        Reader { rest: message }
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next field, or none at the end.
    #[inline]
    pub fn next_field(&mut self) -> Result<Option<Field<'a>>, Status> {
        loop {
            if self.rest.is_empty() {
                return Ok(None);
            }
            let key = self.varint()?;
            let number = u32::try_from(key >> 3).map_err(|_| malformed("a field number is too large"))?;
            if number == 0 {
                return Err(malformed("a field has number 0"));
            }
            let value = match (key & 7) as u8 {
                VARINT => Value::Varint(self.varint()?),
                FIXED64 => Value::Fixed64(self.take(8)?),
                BYTES => {
                    let length = self.varint()?;
                    let length = usize::try_from(length).map_err(|_| malformed("a length is too large"))?;
                    Value::Bytes(self.take(length)?)
                }
                FIXED32 => Value::Fixed32(self.take(4)?),
                GROUP_START => {
                    self.skip_group()?;
                    continue;
                }
                _ => return Err(malformed("an unknown wire type")),
            };
            return Ok(Some(Field { number, value }));
        }
    }

    /// The next varint of a packed field, or none at the end.
    #[inline]
    pub fn next_varint(&mut self) -> Result<Option<u64>, Status> {
        if self.rest.is_empty() { Ok(None) } else { self.varint().map(Some) }
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Status> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Status> {
        let mut value = 0u64;
        for (index, byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if *byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(malformed("a varint does not end"))
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], Status> {
        if length > self.rest.len() {
            return Err(malformed("it ends in the middle of a field"));
        }
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(taken)
    }

    fn skip_group(&mut self) -> Result<(), Status> {
        let mut depth = 1;
        while depth > 0 {
            let key = self.varint()?;
            match (key & 7) as u8 {
                VARINT => drop(self.varint()?),
                FIXED64 => drop(self.take(8)?),
                BYTES => {
                    let length = self.varint()?;
                    self.take(usize::try_from(length).map_err(|_| malformed("a length is too large"))?)?;
                }
                FIXED32 => drop(self.take(4)?),
                GROUP_START => depth += 1,
                GROUP_END => depth -= 1,
                _ => return Err(malformed("an unknown wire type")),
            }
        }
        Ok(())
    }
}

/// Entries of one kind in a request, at most: an entry of two bytes becomes far more, which nobody has counted yet.
pub const MOST_ENTRIES: usize = 1 << 14;

/// Adds an entry that a request repeats, such as an input.
pub fn push_entry<T>(list: &mut Vec<T>, entry: T, what: &str) -> Result<(), Status> {
    if list.len() == MOST_ENTRIES {
        return Err(Status::exhausted(format!(
            "the request has more than {MOST_ENTRIES} {what}: send fewer at a time"
        )));
    }
    list.push(entry);
    Ok(())
}

/// Reads a message with two fields of bytes: an entry of a map, or whatever pairs a name with something.
pub fn read_pair<'a>(message: &'a [u8], of: &str) -> Result<(&'a [u8], &'a [u8]), Status> {
    let (mut name, mut value): (&[u8], &[u8]) = (&[], &[]);
    let mut reader = Reader::new(message);
    while let Some(part) = reader.next_field()? {
        match part.number {
            1 => name = part.bytes(of)?,
            2 => value = part.bytes(of)?,
            _ => {}
        }
    }
    Ok((name, value))
}

/// Bytes that a varint takes.
#[inline]
pub fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Writes a varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes a field's key.
#[inline]
pub fn put_key(out: &mut Vec<u8>, number: u32, wire_type: u8) {
    put_varint(out, u64::from(number) << 3 | u64::from(wire_type));
}

/// Writes a varint field.
pub fn put_uint(out: &mut Vec<u8>, number: u32, value: u64) {
    put_key(out, number, VARINT);
    put_varint(out, value);
}

/// Writes a field of bytes, a string or a finished message.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    put_key(out, number, BYTES);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Bytes that a field with this number and content length takes.
#[inline]
pub fn bytes_field_len(number: u32, length: usize) -> usize {
    varint_len(u64::from(number) << 3) + varint_len(length as u64) + length
}
