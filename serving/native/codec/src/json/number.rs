//! Numbers in JSON text: integers exactly, others as the nearest double, `NaN` and infinities too.

use crate::tensors::Number;

const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// The digits of a number and what they stand for.
#[derive(Default)]
struct Digits {
    mantissa: u64,
    significant: usize,
}

impl Digits {
    #[inline]
    fn take(&mut self, text: &[u8], mut at: usize) -> usize {
        while let Some(byte @ b'0'..=b'9') = text.get(at) {
            self.mantissa = self.mantissa.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
            self.significant += usize::from(self.significant > 0 || *byte != b'0');
            at += 1;
        }
        at
    }

    /// Whether the mantissa holds all digits.
    #[inline]
    fn exact(&self) -> bool {
        self.significant <= 19
    }
}

/// Reads the number at the start of a text, or says what is wrong with it.
#[inline]
pub fn read(text: &[u8]) -> Result<(Number, usize), &'static str> {
    let negative = text.first() == Some(&b'-');
    let start = usize::from(negative);
    let mut digits = Digits::default();
    let mut at = digits.take(text, start);
    if at == start {
        return special(text, negative);
    }
    if at > start + 1 && text[start] == b'0' {
        return Err("Invalid value.");
    }
    if !matches!(text.get(at), Some(b'.' | b'e' | b'E')) {
        return whole(&text[..at], &digits, negative).map(|number| (number, at));
    }
    let mut exponent = 0i64;
    if text[at] == b'.' {
        let end = digits.take(text, at + 1);
        if end == at + 1 {
            return Err("Miss fraction part in number.");
        }
        exponent -= (end - at - 1) as i64;
        at = end;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let (written, end) = read_exponent(text, at + 1)?;
        exponent += written;
        at = end;
    }
    finite(float(&text[..at], &digits, negative, exponent)).map(|number| (number, at))
}

/// Only `Infinity` itself is infinite.
#[inline]
fn finite(value: f64) -> Result<Number, &'static str> {
    if value.is_infinite() { Err("Number too big to be stored in double.") } else { Ok(Number::Float(value)) }
}

fn read_exponent(text: &[u8], mut at: usize) -> Result<(i64, usize), &'static str> {
    let minus = text.get(at) == Some(&b'-');
    at += usize::from(matches!(text.get(at), Some(b'-' | b'+')));
    let start = at;
    let mut written = 0i64;
    while let Some(byte @ b'0'..=b'9') = text.get(at) {
        written = (written * 10 + i64::from(byte - b'0')).min(1_000_000);
        at += 1;
    }
    if at == start {
        return Err("Miss exponent in number.");
    }
    Ok((if minus { -written } else { written }, at))
}

#[inline]
fn whole(text: &[u8], digits: &Digits, negative: bool) -> Result<Number, &'static str> {
    if digits.exact() && !negative {
        return Ok(Number::Unsigned(digits.mantissa));
    }
    if digits.exact() && digits.mantissa <= 1 << 63 {
        return Ok(Number::Signed((digits.mantissa as i64).wrapping_neg()));
    }
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.parse().map(Number::Unsigned).or_else(|_| finite(text.parse().unwrap_or(f64::NAN)))
}

#[inline]
fn float(text: &[u8], digits: &Digits, negative: bool, exponent: i64) -> f64 {
    if digits.exact() && digits.mantissa <= 1 << 53 && (-22..=22).contains(&exponent) {
        // Both factors are exact doubles, so one rounding gives the nearest value.
        let scale = POWERS[exponent.unsigned_abs() as usize];
        let value = if exponent < 0 { digits.mantissa as f64 / scale } else { digits.mantissa as f64 * scale };
        return if negative { -value } else { value };
    }
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}

#[cold]
fn special(text: &[u8], negative: bool) -> Result<(Number, usize), &'static str> {
    let start = usize::from(negative);
    for (word, value) in [(&b"NaN"[..], f64::NAN), (b"Infinity", f64::INFINITY), (b"Inf", f64::INFINITY)] {
        if text[start..].starts_with(word) {
            return Ok((Number::Float(if negative { -value } else { value }), start + word.len()));
        }
    }
    Err("Invalid value.")
}
