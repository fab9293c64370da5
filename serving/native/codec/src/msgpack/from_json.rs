//! JSON text that the plane or a model wrote, as one value in MessagePack, each part in its shortest form.

use crate::json::scalar::{is_base64, read_base64};
use crate::json::scanner::{MAX_DEPTH, Scanner};
use crate::msgpack::binary::Binary;
use crate::status::Status;
use crate::tensors::Number;

/// An object or an array that has not ended: what closes it, where its head belongs, its members or elements so far.
struct Open {
    close: u8,
    start: usize,
    count: usize,
}

/// The message. Numbers with a fraction have eight bytes.
pub fn from_json(text: &[u8], binary: Binary) -> Result<Vec<u8>, Status> {
    let mut scanner = Scanner::new(text);
    let (mut out, mut buffer) = (Vec::with_capacity(text.len()), Vec::new());
    let mut open: Vec<Open> = Vec::new();
    loop {
        match scanner.peek() {
            b'{' if binary == Binary::Object && is_base64(&scanner) => {
                buffer.clear();
                read_base64(&mut scanner, &mut buffer)?;
                write_head(&mut out, buffer.len(), &BYTES);
                out.extend_from_slice(&buffer);
            }
            byte @ (b'{' | b'[') => {
                if open.len() == MAX_DEPTH {
                    return Err(scanner.error("Nested too deeply."));
                }
                scanner.eat(byte);
                open.push(Open { close: byte + 2, start: out.len(), count: 0 });
            }
            _ => write_scalar(&mut scanner, &mut buffer, &mut out)?,
        }
        loop {
            let Some(last) = open.last_mut() else {
                scanner.end()?;
                return Ok(out);
            };
            if scanner.more(last.close, last.count == 0)? {
                last.count += 1;
                if last.close == b'}' {
                    let key = scanner.key(&mut buffer)?;
                    write_head(&mut out, key.len(), &TEXT);
                    out.extend_from_slice(key);
                }
                break;
            }
            let mut head = Vec::new();
            write_head(&mut head, last.count, if last.close == b'}' { &MAP } else { &ARRAY });
            out.splice(last.start..last.start, head);
            open.pop();
        }
    }
}

/// The first bytes of what has a length: with the length in it, of so many at most, and with one, two and four bytes of
/// length behind it.
struct Kind {
    short: Option<(u8, usize)>,
    one: Option<u8>,
    two: u8,
    four: u8,
}

const TEXT: Kind = Kind { short: Some((0xa0, 31)), one: Some(0xd9), two: 0xda, four: 0xdb };
const BYTES: Kind = Kind { short: None, one: Some(0xc4), two: 0xc5, four: 0xc6 };
const ARRAY: Kind = Kind { short: Some((0x90, 15)), one: None, two: 0xdc, four: 0xdd };
const MAP: Kind = Kind { short: Some((0x80, 15)), one: None, two: 0xde, four: 0xdf };

fn write_head(out: &mut Vec<u8>, length: usize, kind: &Kind) {
    match (kind.short, kind.one) {
        (Some((first, most)), _) if length <= most => out.push(first | length as u8),
        (_, Some(one)) if length <= 0xff => out.extend_from_slice(&[one, length as u8]),
        _ if length <= 0xffff => {
            out.push(kind.two);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.push(kind.four);
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }
}

fn write_scalar(scanner: &mut Scanner<'_>, buffer: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<(), Status> {
    match scanner.peek() {
        b'"' => {
            let text = scanner.string(buffer)?;
            write_head(out, text.len(), &TEXT);
            out.extend_from_slice(text);
        }
        b'n' if scanner.word(b"null") => out.push(0xc0),
        b'f' if scanner.word(b"false") => out.push(0xc2),
        b't' if scanner.word(b"true") => out.push(0xc3),
        b'n' | b'f' | b't' => return Err(scanner.error("Invalid value.")),
        _ => write_number(scanner.number()?, out),
    }
    Ok(())
}

fn write_number(number: Number, out: &mut Vec<u8>) {
    let (first, bytes, size) = match number {
        Number::Float(value) => (0xcb, value.to_be_bytes(), 8),
        Number::Unsigned(value @ ..=0x7f) => return out.push(value as u8),
        Number::Unsigned(value) => {
            let (first, size) = match value {
                0..=0xff => (0xcc, 1),
                0x100..=0xffff => (0xcd, 2),
                0x1_0000..=0xffff_ffff => (0xce, 4),
                _ => (0xcf, 8),
            };
            (first, value.to_be_bytes(), size)
        }
        Number::Signed(value @ -32..=0) => return out.push(value as u8),
        Number::Signed(value) => {
            let (first, size) = match value {
                -0x80..=-1 => (0xd0, 1),
                -0x8000..=-0x81 => (0xd1, 2),
                -0x8000_0000..=-0x8001 => (0xd2, 4),
                _ => (0xd3, 8),
            };
            (first, value.to_be_bytes(), size)
        }
    };
    out.push(first);
    out.extend_from_slice(&bytes[8 - size..]);
}
