//! One value in MessagePack, read strictly and written as JSON text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::json::scanner::MAX_DEPTH;
use crate::json::text::{write_double, write_float, write_text};
use crate::msgpack::binary::Binary;
use crate::status::Status;
use crate::tensors::Room;

/// Memory is taken for so many bytes at once.
const STEP: usize = 16 << 10;

/// A map or an array that has not ended.
struct Open {
    map: bool,
    /// Its items, of a map keys and values.
    items: u64,
    read: u64,
}

/// What a value begins with.
enum Head {
    Scalar,
    Container { map: bool, count: u64 },
}

/// A position in a message, and the text so far.
struct Reader<'a> {
    message: &'a [u8],
    at: usize,
    binary: Binary,
    out: Vec<u8>,
}

/// The text of the only value, for which memory is taken as it grows. Names of members must be text; extension types are
/// refused, since JSON has no word for them.
pub fn to_json(message: &[u8], binary: Binary, room: &mut dyn Room) -> Result<Vec<u8>, Status> {
    room.take(message.len())?;
    let mut taken = message.len();
    let mut reader = Reader { message, at: 0, binary, out: Vec::with_capacity(message.len()) };
    let mut open: Vec<Open> = Vec::new();
    loop {
        if reader.out.capacity() > taken {
            let more = (reader.out.capacity() - taken).next_multiple_of(STEP);
            room.take(more)?;
            taken += more;
        }
        let is_key = open.last().is_some_and(|last| last.map && last.read % 2 == 0);
        if let Some(last) = open.last_mut() {
            match last.read {
                0 => {}
                odd if last.map && odd % 2 == 1 => reader.out.push(b':'),
                _ => reader.out.push(b','),
            }
            last.read += 1;
        }
        let deepest = open.len() == MAX_DEPTH;
        if let Head::Container { map, count } = reader.value(is_key, deepest)? {
            reader.out.push(if map { b'{' } else { b'[' });
            open.push(Open { map, items: if map { 2 * count } else { count }, read: 0 });
        }
        while let Some(ended) = open.pop_if(|last| last.read == last.items) {
            reader.out.push(if ended.map { b'}' } else { b']' });
        }
        if open.is_empty() {
            return reader.end();
        }
    }
}

impl<'a> Reader<'a> {
    #[cold]
    fn error(&self, what: &str) -> Status {
        Status::invalid(format!("MessagePack error: {what} at offset: {}", self.at))
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], Status> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let rest = self.message.get(self.at..).unwrap_or_default();
        let taken = rest.get(..count).ok_or_else(|| self.error("the message ends within a value"))?;
        self.at += count;
        Ok(taken)
    }

    /// A big-endian number of so many bytes.
    fn unsigned(&mut self, size: u64) -> Result<u64, Status> {
        Ok(self.take(size)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, size: u64) -> Result<i64, Status> {
        let unused = 64 - 8 * size as u32;
        Ok((self.unsigned(size)? << unused) as i64 >> unused)
    }

    /// Writes a scalar; of a map or an array it reads the size alone. What is an object or a list in JSON must not be deeper
    /// than the deepest.
    fn value(&mut self, is_key: bool, deepest: bool) -> Result<Head, Status> {
        let start = self.at;
        let kind = self.take(1)?[0];
        if deepest && matches!(kind, 0x80..=0x9f | 0xc4..=0xc6 | 0xdc..=0xdf) {
            return Err(self.error("nested too deeply"));
        }
        if is_key && !matches!(kind, 0xa0..=0xbf | 0xd9..=0xdb) {
            self.at = start;
            return Err(self.error("the name of a member is no text"));
        }
        let mut digits = itoa::Buffer::new();
        let word = match kind {
            0x80..=0x8f => return Ok(Head::Container { map: true, count: u64::from(kind & 0x0f) }),
            0x90..=0x9f => return Ok(Head::Container { map: false, count: u64::from(kind & 0x0f) }),
            0xdc | 0xdd => return Ok(Head::Container { map: false, count: self.unsigned(2 << (kind - 0xdc))? }),
            0xde | 0xdf => return Ok(Head::Container { map: true, count: self.unsigned(2 << (kind - 0xde))? }),
            0xa0..=0xbf => return self.text(u64::from(kind & 0x1f)),
            0xd9..=0xdb => {
                let length = self.unsigned(1 << (kind - 0xd9))?;
                return self.text(length);
            }
            0xc4..=0xc6 => {
                let length = self.unsigned(1 << (kind - 0xc4))?;
                return self.bytes(length);
            }
            0xca => {
                let value = f32::from_bits(self.unsigned(4)? as u32);
                write_float(&mut self.out, value);
                return Ok(Head::Scalar);
            }
            0xcb => {
                let value = f64::from_bits(self.unsigned(8)?);
                write_double(&mut self.out, value);
                return Ok(Head::Scalar);
            }
            0xc0 => "null",
            0xc2 => "false",
            0xc3 => "true",
            0x00..=0x7f => digits.format(kind),
            0xe0..=0xff => digits.format(kind as i8),
            0xcc..=0xcf => digits.format(self.unsigned(1 << (kind - 0xcc))?),
            0xd0..=0xd3 => digits.format(self.signed(1 << (kind - 0xd0))?),
            0xc1 => {
                self.at = start;
                return Err(self.error("a byte 0xc1, with which no value begins"));
            }
            0xc7..=0xc9 | 0xd4..=0xd8 => {
                self.at = start;
                return Err(self.error("an extension type, for which JSON has no word: send text or a number"));
            }
        };
        self.out.extend_from_slice(word.as_bytes());
        Ok(Head::Scalar)
    }

    fn text(&mut self, length: u64) -> Result<Head, Status> {
        let start = self.at;
        let taken = self.take(length)?;
        let Ok(text) = std::str::from_utf8(taken) else {
            self.at = start;
            return Err(self.error("text that is no UTF-8"));
        };
        write_text(&mut self.out, text);
        Ok(Head::Scalar)
    }

    fn bytes(&mut self, length: u64) -> Result<Head, Status> {
        let encoded = STANDARD.encode(self.take(length)?);
        let (before, after) = match self.binary {
            Binary::Object => ("{\"b64\":\"", "\"}"),
            Binary::Text => ("\"", "\""),
        };
        [before, &encoded, after].iter().for_each(|part| self.out.extend_from_slice(part.as_bytes()));
        Ok(Head::Scalar)
    }

    fn end(self) -> Result<Vec<u8>, Status> {
        match self.at == self.message.len() {
            true => Ok(self.out),
            false => Err(self.error("another value follows the first")),
        }
    }
}
