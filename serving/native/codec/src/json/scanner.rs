//! A JSON scanner that reads tokens where they stand: no tree, no recursion, an offset in every error.
//! `NaN` and infinities are numbers, as in TensorFlow Serving.

use crate::json::number;
use crate::status::Status;
use crate::tensors::Number;

/// Deepest nesting that is skipped over or described.
const MAX_DEPTH: usize = 256;

/// A position in a JSON text.
#[derive(Clone, Copy, Debug)]
pub struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// At the start of a text.
    pub fn new(text: &'a [u8]) -> Scanner<'a> {
        Scanner { text, at: 0 }
    }

    /// Bytes of the whole text.
    pub fn text_len(&self) -> usize {
        self.text.len()
    }

    /// Bytes read so far.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// A complaint about this place.
    #[cold]
    pub fn error(&self, what: &str) -> Status {
        Status::invalid(format!("JSON Parse error: {what} at offset: {}", self.at))
    }

    /// The next byte that is not white space, which stays unread; 0 at the end.
    #[inline]
    pub fn peek(&mut self) -> u8 {
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                other => return *other,
            }
        }
        0
    }

    /// Reads this byte if it is next.
    #[inline]
    pub fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte;
        self.at += usize::from(found);
        found
    }

    /// Whether another element follows in an array or object that `close` ends; `first` before its first.
    #[inline]
    pub fn more(&mut self, close: u8, first: bool) -> Result<bool, Status> {
        match self.peek() {
            byte if byte == close => {
                self.at += 1;
                Ok(false)
            }
            b',' if !first => {
                self.at += 1;
                match (self.peek() == close, close) {
                    (false, _) => Ok(true),
                    (true, b']') => Err(self.error("Invalid value.")),
                    (true, _) => Err(self.error("Missing a name for object member.")),
                }
            }
            _ if first => Ok(true),
            _ if close == b']' => Err(self.error("Missing a comma or ] after an array element.")),
            _ => Err(self.error("Missing a comma or } after an object member.")),
        }
    }

    /// Reads an object's key and the colon; the key is written into `buffer` only when it has escapes.
    pub fn key<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], Status>
    where
        'a: 'b,
    {
        if self.peek() != b'"' {
            return Err(self.error("Missing a name for object member."));
        }
        let key = self.string(buffer)?;
        if !self.eat(b':') {
            return Err(self.error("Missing a colon after a name of object member."));
        }
        Ok(key)
    }

    /// Reads a string; it is written into `buffer` only when it has escapes.
    pub fn string<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], Status>
    where
        'a: 'b,
    {
        let start = self.at + 1;
        match self.plain_string_end(start) {
            Some(end) => {
                self.at = end + 1;
                let plain = &self.text[start..end];
                self.check_utf8(plain, start)?;
                Ok(plain)
            }
            None => {
                buffer.clear();
                self.string_into(buffer)?;
                Ok(buffer)
            }
        }
    }

    /// Where the string ends if it has no escape.
    #[inline]
    fn plain_string_end(&self, start: usize) -> Option<usize> {
        let end = start + memchr::memchr2(b'"', b'\\', self.text.get(start..)?)?;
        (self.text[end] == b'"').then_some(end)
    }

    fn check_utf8(&self, bytes: &[u8], start: usize) -> Result<(), Status> {
        if bytes.iter().any(|byte| *byte < 0x20) || std::str::from_utf8(bytes).is_err() {
            let here = Scanner { at: start, ..*self };
            return Err(here.error("Invalid encoding in string."));
        }
        Ok(())
    }

    /// Reads a string, resolves its escapes and appends it to `out`.
    pub fn string_into(&mut self, out: &mut Vec<u8>) -> Result<(), Status> {
        if !self.eat(b'"') {
            return Err(self.error("Invalid value."));
        }
        while let Some(length) = self.text.get(self.at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
            let rest = &self.text[self.at..];
            self.check_utf8(&rest[..length], self.at)?;
            out.extend_from_slice(&rest[..length]);
            self.at += length + 1;
            if rest[length] == b'"' {
                return Ok(());
            }
            let escape = Scanner { at: self.at - 1, ..*self };
            self.escape(out).map_err(|what| escape.error(what))?;
        }
        self.at = self.text.len();
        Err(self.error("Missing a closing quotation mark in string."))
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), &'static str> {
        let kind = self.text.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        let plain = match kind {
            b'"' | b'\\' | b'/' => kind,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let character = self.unicode()?;
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err("Invalid escape character in string."),
        };
        out.push(plain);
        Ok(())
    }

    fn unicode(&mut self) -> Result<char, &'static str> {
        const NO_PAIR: &str = "The surrogate pair in string is invalid.";
        let high = self.hex4()?;
        let code = if (0xd800..0xdc00).contains(&high) {
            if self.text.get(self.at..self.at + 2) != Some(b"\\u") {
                return Err(NO_PAIR);
            }
            self.at += 2;
            let low = self.hex4()?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err(NO_PAIR);
            }
            0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
        } else {
            high
        };
        char::from_u32(code).ok_or(NO_PAIR)
    }

    fn hex4(&mut self) -> Result<u32, &'static str> {
        let digits = self.text.get(self.at..self.at + 4).and_then(|four| std::str::from_utf8(four).ok());
        let value = digits.filter(|four| four.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let value = value.and_then(|four| u32::from_str_radix(four, 16).ok());
        let value = value.ok_or("Incorrect hex digit after \\u escape in string.")?;
        self.at += 4;
        Ok(value)
    }

    /// Reads `true`, `false` or `null` if that word is next.
    pub fn word(&mut self, word: &[u8]) -> bool {
        self.peek();
        let found = self.text[self.at..].starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// Reads a number.
    #[inline]
    pub fn number(&mut self) -> Result<Number, Status> {
        self.peek();
        match number::read(&self.text[self.at..]) {
            Ok((number, length)) => {
                self.at += length;
                Ok(number)
            }
            Err(what) => Err(self.error(what)),
        }
    }

    /// Complains if anything but white space follows: half of a body that was sent twice must not pass for the whole.
    pub fn end(&mut self) -> Result<(), Status> {
        self.peek();
        if self.at == self.text.len() {
            return Ok(());
        }
        Err(self.error("The document root must not be followed by other values."))
    }

    /// Reads any value and forgets it, but checks its form.
    pub fn skip(&mut self) -> Result<(), Status> {
        let mut closers: Vec<u8> = Vec::new();
        let mut scratch = Vec::new();
        loop {
            let mut opened = false;
            match self.peek() {
                b'{' | b'[' if closers.len() == MAX_DEPTH => return Err(self.error("Nested too deeply.")),
                open @ (b'{' | b'[') => {
                    self.at += 1;
                    closers.push(open + 2);
                    opened = true;
                }
                b'"' => drop(self.string(&mut scratch)?),
                b't' if self.word(b"true") => {}
                b'f' if self.word(b"false") => {}
                b'n' if self.word(b"null") => {}
                0 => return Err(self.error("Invalid value.")),
                _ => drop(self.number()?),
            }
            loop {
                let Some(closer) = closers.last() else { return Ok(()) };
                if self.more(*closer, opened)? {
                    if *closer == b'}' {
                        self.key(&mut scratch)?;
                    }
                    break;
                }
                opened = false;
                closers.pop();
            }
        }
    }

    /// The text of the next value, for a message; at most 80 bytes of it.
    pub fn show_value(&self) -> String {
        let mut end = *self;
        end.peek();
        let start = end.at;
        let text = match end.skip() {
            Ok(()) => &self.text[start..end.at],
            Err(_) => &self.text[start..],
        };
        let text = String::from_utf8_lossy(&text[..text.len().min(80)]).into_owned();
        if text.len() < 80 { text } else { text + "..." }
    }

    /// The kind of the next value as TensorFlow Serving's messages name it.
    pub fn kind(&mut self) -> &'static str {
        match self.peek() {
            b'{' => "Object",
            b'[' => "Array",
            b'"' => "String",
            b't' => "True",
            b'f' => "False",
            b'n' => "Null",
            _ => "Number",
        }
    }
}
