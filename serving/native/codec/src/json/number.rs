//! Numbers in JSON text: integers exactly, others as the nearest double, `NaN` and infinities too.

use crate::json::nearest::nearest;
use crate::tensors::Number;

/// The digits of a number and what they stand for.
#[derive(Default)]
struct Digits {
    mantissa: u64,
    significant: usize,
}

impl Digits {
    #[inline]
    fn take(&mut self, text: &[u8], mut at: usize) -> usize {
        if self.significant == 0 {
            at += text[at..].iter().take_while(|byte| **byte == b'0').count();
        }
        let start = at;
        while let Some(eight) = text.get(at..at + 8).and_then(|eight| Some(u64::from_le_bytes(eight.try_into().ok()?)))
            && are_digits(eight)
        {
            self.mantissa = self.mantissa.wrapping_mul(100_000_000).wrapping_add(value_of(eight));
            at += 8;
        }
        while let Some(byte @ b'0'..=b'9') = text.get(at) {
            self.mantissa = self.mantissa.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
            at += 1;
        }
        self.significant += at - start;
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
    match nearest(digits.mantissa, exponent).filter(|_| digits.exact()) {
        Some(value) if negative => -value,
        Some(value) => value,
        None => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN),
    }
}

/// Whether all eight characters are digits: each is from 0x30 on, and stays there with six more.
#[inline]
fn are_digits(eight: u64) -> bool {
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    eight & HIGH == ZEROS && eight.wrapping_add(0x0606_0606_0606_0606) & HIGH == ZEROS
}

/// What eight digits stand for, the first in the lowest byte: twos, then fours, then all of them at once.
#[inline]
fn value_of(eight: u64) -> u64 {
    let ones = eight & 0x0f0f_0f0f_0f0f_0f0f;
    let twos = (ones.wrapping_mul(10 << 8 | 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (twos.wrapping_mul(100 << 16 | 1) >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000 << 32 | 1) >> 32
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
