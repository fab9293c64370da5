//! A number from a text or a message, and whether an element type can hold it.

use half::f16;

use crate::dtype::DType;
use crate::tensors::column::Words;

/// A number as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Not negative, without fraction or exponent.
    Unsigned(u64),
    /// Negative, without fraction or exponent.
    Signed(i64),
    /// Everything else.
    Float(f64),
}

impl Number {
    /// The nearest double.
    #[inline]
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Unsigned(value) => value as f64,
            Number::Signed(value) => value as f64,
            Number::Float(value) => value,
        }
    }
}

/// Appends a number if the type can hold it. A float takes whole numbers only while they are exact in it.
#[inline]
pub fn push_number(number: Number, dtype: DType, words: &mut Words) -> Option<()> {
    match dtype {
        DType::Float32 => {
            let value = fit_float(number, 1 << 24, f64::from(f32::MAX))?;
            words.push(&(value as f32).to_le_bytes());
        }
        DType::Float64 => words.push(&fit_float(number, 1 << 53, f64::MAX)?.to_le_bytes()),
        DType::Float16 => {
            let value = fit_float(number, 1 << 11, f16::MAX.to_f64())?;
            words.push(&f16::from_f32(value as f32).to_le_bytes());
        }
        DType::Int64 | DType::Int32 | DType::Int16 | DType::Int8 => {
            let value = match number {
                Number::Unsigned(value) => i64::try_from(value).ok()?,
                Number::Signed(value) => value,
                Number::Float(_) => return None,
            };
            let size = dtype.size();
            let unused = 64 - 8 * size as u32;
            if (value << unused) >> unused != value {
                return None;
            }
            words.push(&value.to_le_bytes()[..size]);
        }
        DType::UInt64 | DType::UInt32 | DType::UInt16 | DType::UInt8 => {
            let value = match number {
                Number::Unsigned(value) => value,
                Number::Signed(0) => 0,
                _ => return None,
            };
            let size = dtype.size();
            if size < 8 && value >> (8 * size) != 0 {
                return None;
            }
            words.push(&value.to_le_bytes()[..size]);
        }
        DType::Bool | DType::String | DType::Complex64 | DType::Complex128 => return None,
    }
    Some(())
}

#[inline]
fn fit_float(number: Number, exact: u64, largest: f64) -> Option<f64> {
    match number {
        Number::Unsigned(value) => (value <= exact).then_some(value as f64),
        Number::Signed(value) => (value.unsigned_abs() <= exact).then_some(value as f64),
        Number::Float(value) => (!value.is_finite() || value.abs() <= largest).then_some(value),
    }
}
