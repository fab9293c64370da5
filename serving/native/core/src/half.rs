//! IEEE half precision, which Rust does not have yet: conversion from and to single precision, rounding to even.
//! The decoders of JSON and of examples use it for columns of dtype float16.

/// The largest finite half.
pub const LARGEST: f32 = 65504.0;

/// The nearest half, ties to even; overflow becomes infinity.
pub fn from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00;
    }
    if magnitude >= 0x4780_0000 {
        return sign | 0x7c00;
    }
    let exponent = (magnitude >> 23) as i32 - 127;
    let (mantissa, shift) = if exponent >= -14 {
        (magnitude - ((127 - 15) << 23), 13)
    } else if exponent >= -25 {
        ((magnitude & 0x007f_ffff) | 0x0080_0000, (-1 - exponent) as u32)
    } else {
        return sign;
    };
    let kept = mantissa >> shift;
    let rest = mantissa & ((1 << shift) - 1);
    let tie = 1 << (shift - 1);
    let up = rest > tie || (rest == tie && kept & 1 == 1);
    sign | (kept + u32::from(up)) as u16
}

/// The same value in single precision, exactly.
pub fn to_f32(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let exponent = u32::from(half >> 10 & 0x1f);
    let mantissa = u32::from(half & 0x3ff);
    let magnitude = match (exponent, mantissa) {
        (0, _) => (mantissa as f32 * (-24f32).exp2()).to_bits(),
        (31, _) => 0x7f80_0000 | mantissa << 13,
        _ => (exponent + 112) << 23 | mantissa << 13,
    };
    f32::from_bits(sign | magnitude)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_the_way_there_and_back() {
        for half in 0..=u16::MAX {
            let value = to_f32(half);
            if value.is_nan() {
                assert_eq!(from_f32(value) & 0x7e00, 0x7e00);
            } else {
                assert_eq!(from_f32(value), half, "{value}");
            }
        }
    }

    #[test]
    fn rounds_to_nearest_and_ties_to_even() {
        assert_eq!(from_f32(1.0 + 2f32.powi(-11)), 0x3c00);
        assert_eq!(from_f32(1.0 + 3.0 * 2f32.powi(-11)), 0x3c02);
        assert_eq!(from_f32(1.0 + 2f32.powi(-11) + 2f32.powi(-20)), 0x3c01);
        assert_eq!(from_f32(65519.0), 0x7bff);
        assert_eq!(from_f32(65520.0), 0x7c00);
        assert_eq!(from_f32(2f32.powi(-25)), 0);
        assert_eq!(from_f32(2f32.powi(-25) * 1.5), 1);
        assert_eq!(from_f32(-2.0), 0xc000);
    }
}
