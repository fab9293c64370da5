//! A JSON scanner that reads tokens where they stand: no tree, no recursion, an offset in every error.
//! `NaN` and infinities are numbers, as in TensorFlow Serving.

use crate::json::number;
use crate::status::Status;
use crate::tensors::Number;

/// Deepest nesting that is skipped over or described.
pub const MAX_DEPTH: usize = 256;
/// Longest name, in bytes: nothing that has a name has a longer one.
const MAX_NAME: usize = 64 << 10;
/// What a message shows of a value, in bytes.
const SHOWN: usize = 80;

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
        self.before_key()?;
        let key = self.name(buffer)?;
        self.after_key()?;
        Ok(key)
    }

    fn before_key(&mut self) -> Result<(), Status> {
        if self.peek() == b'"' { Ok(()) } else { Err(self.error("Missing a name for object member.")) }
    }

    fn after_key(&mut self) -> Result<(), Status> {
        if self.eat(b':') { Ok(()) } else { Err(self.error("Missing a colon after a name of object member.")) }
    }

    /// Reads a string that names something, as `string` does, and refuses one that is too long for that.
    pub fn name<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], Status>
    where
        'a: 'b,
    {
        let start = *self;
        let name = match self.plain_string()? {
            Some(plain) => plain,
            None => {
                buffer.clear();
                self.unescape(|piece| {
                    buffer.extend_from_slice(piece);
                    if buffer.len() > MAX_NAME { Err(too_long(start)) } else { Ok(()) }
                })?;
                buffer
            }
        };
        if name.len() > MAX_NAME { Err(too_long(start)) } else { Ok(name) }
    }

    /// Reads a string; it is written into `buffer` only when it has escapes.
    pub fn string<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], Status>
    where
        'a: 'b,
    {
        match self.plain_string()? {
            Some(plain) => Ok(plain),
            None => {
                buffer.clear();
                self.string_into(buffer)?;
                Ok(buffer)
            }
        }
    }

    /// Reads a string if it has no escape.
    #[inline]
    fn plain_string(&mut self) -> Result<Option<&'a [u8]>, Status> {
        let start = self.at + 1;
        let length = self.text.get(start..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest));
        let Some(end) = length.map(|length| start + length).filter(|end| self.text[*end] == b'"') else {
            return Ok(None);
        };
        self.at = end + 1;
        let plain = &self.text[start..end];
        self.check_utf8(plain, start)?;
        Ok(Some(plain))
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
        self.unescape(|piece| {
            out.extend_from_slice(piece);
            Ok(())
        })
    }

    /// Reads a string and forgets it, but checks its form.
    fn skip_string(&mut self) -> Result<(), Status> {
        match self.plain_string()? {
            Some(_) => Ok(()),
            None => self.unescape(|_| Ok(())),
        }
    }

    /// Reads a string and hands on what it stands for, piece by piece.
    fn unescape(&mut self, mut take: impl FnMut(&[u8]) -> Result<(), Status>) -> Result<(), Status> {
        if !self.eat(b'"') {
            return Err(self.error("Invalid value."));
        }
        loop {
            // One escape often follows another.
            while self.text.get(self.at) == Some(&b'\\') {
                let escape = Scanner { ..*self };
                self.at += 1;
                let character = self.escape().map_err(|what| escape.error(what))?;
                take(character.encode_utf8(&mut [0; 4]).as_bytes())?;
            }
            let rest = &self.text[self.at..];
            let Some(length) = memchr::memchr2(b'"', b'\\', rest) else {
                self.at = self.text.len();
                return Err(self.error("Missing a closing quotation mark in string."));
            };
            if length > 0 {
                self.check_utf8(&rest[..length], self.at)?;
                take(&rest[..length])?;
                self.at += length;
            }
            if rest[length] == b'"' {
                self.at += 1;
                return Ok(());
            }
        }
    }

    fn escape(&mut self) -> Result<char, &'static str> {
        let kind = self.text.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        Ok(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return Err("Invalid escape character in string."),
        })
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
        let digits = self.text.get(self.at..self.at + 4).unwrap_or_default();
        let digit = |value: u32, byte: &u8| Some(value << 4 | char::from(*byte).to_digit(16)?);
        let value = digits.iter().try_fold(0, digit).filter(|_| digits.len() == 4);
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

    /// Reads numbers that follow others in a list, at most so many, and hands on the double nearest to each. Stops at
    /// whatever is anything else but the next number behind a comma or a comma and a space.
    #[inline]
    pub fn more_numbers(&mut self, most: usize, mut take: impl FnMut(f64)) -> usize {
        let mut count = 0;
        while count < most && self.text.get(self.at) == Some(&b',') {
            let start = self.at + if self.text.get(self.at + 1) == Some(&b' ') { 2 } else { 1 };
            let next = &self.text[start..];
            if !matches!(next.first(), Some(b'-' | b'0'..=b'9')) {
                break;
            }
            let Ok((number, length)) = number::read(next) else { break };
            take(number.as_f64());
            self.at = start + length;
            count += 1;
        }
        count
    }

    /// Complains if anything but white space follows: half of a body that was sent twice must not pass for the whole.
    pub fn end(&mut self) -> Result<(), Status> {
        self.peek();
        if self.at == self.text.len() {
            return Ok(());
        }
        Err(self.error("The document root must not be followed by other values."))
    }

    /// Where the value of an object's member begins; none where it has no such member, or is no object.
    pub fn member(mut self, name: &str) -> Result<Option<Scanner<'a>>, Status> {
        if self.peek() != b'{' {
            return Ok(None);
        }
        self.eat(b'{');
        let (mut first, mut buffer) = (true, Vec::new());
        while self.more(b'}', first)? {
            first = false;
            if self.key(&mut buffer)? == name.as_bytes() {
                return Ok(Some(self));
            }
            self.skip()?;
        }
        Ok(None)
    }

    /// Reads any value and forgets it, but checks its form.
    pub fn skip(&mut self) -> Result<(), Status> {
        let mut closers: Vec<u8> = Vec::new();
        loop {
            let mut opened = false;
            match self.peek() {
                b'{' | b'[' if closers.len() == MAX_DEPTH => return Err(self.error("Nested too deeply.")),
                open @ (b'{' | b'[') => {
                    self.at += 1;
                    closers.push(open + 2);
                    opened = true;
                }
                b'"' => self.skip_string()?,
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
                        self.before_key()?;
                        self.skip_string()?;
                        self.after_key()?;
                    }
                    break;
                }
                opened = false;
                closers.pop();
            }
        }
    }

    /// The same text, but for what lies more than so many bytes ahead.
    pub fn ahead(&self, most: usize) -> Scanner<'a> {
        Scanner { text: &self.text[..self.text.len().min(self.at.saturating_add(most))], at: self.at }
    }

    /// Bytes that were not read.
    pub fn left(&self) -> usize {
        self.text.len() - self.at
    }

    /// The text of the next value, for a message; at most 80 bytes of it.
    pub fn show_value(&self) -> String {
        let mut value = *self;
        value.peek();
        let (start, mut end) = (value.at, value.ahead(SHOWN));
        let text = match end.skip() {
            Ok(()) => &end.text[start..end.at],
            Err(_) => &end.text[start..],
        };
        let text = String::from_utf8_lossy(text).into_owned();
        if text.len() < SHOWN { text } else { text + "..." }
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

#[cold]
fn too_long(name: Scanner<'_>) -> Status {
    let start = name.show_value();
    Status::invalid(format!("JSON Value: {start} is a name of more than {MAX_NAME} bytes, which nothing has"))
}
