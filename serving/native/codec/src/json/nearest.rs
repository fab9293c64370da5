//! The double nearest to a decimal number whose digits fit one word, after Eisel and Lemire (Lemire, "Number Parsing at a
//! Gigabyte per Second", 2021): one or two multiplications by a power of five that is known to 128 bits.

/// Powers of ten whose powers of five are kept. With them and 64 bits of digits, nothing becomes zero, subnormal or
/// infinite, and the product says on which side of a tie the number lies, or that it is one.
const LEAST: i64 = -27;
const MOST: i64 = 55;

const BITS: u32 = f64::MANTISSA_DIGITS - 1;
const BIAS: i64 = 1023;

/// The first 128 bits of 5^exponent, the first of them set; rounded up below zero.
static FIVES: [u128; (MOST - LEAST + 1) as usize] = fives();

const fn fives() -> [u128; (MOST - LEAST + 1) as usize] {
    let mut found = [0; (MOST - LEAST + 1) as usize];
    let mut power = 1u128;
    let mut exponent = 0;
    while exponent <= MOST {
        found[(exponent - LEAST) as usize] = power << power.leading_zeros();
        if 0 < exponent && exponent <= -LEAST {
            found[(-exponent - LEAST) as usize] = reciprocal(power);
        }
        if exponent < MOST {
            power *= 5;
        }
        exponent += 1;
    }
    found
}

/// The first 128 bits of 1/power, by long division, and one.
const fn reciprocal(power: u128) -> u128 {
    let (mut quotient, mut rest) = (0u128, 1u128);
    let mut left = 128 - power.leading_zeros() + 127;
    while left > 0 {
        rest <<= 1;
        quotient = quotient << 1 | (rest >= power) as u128;
        rest -= if rest >= power { power } else { 0 };
        left -= 1;
    }
    quotient + 1
}

/// The double nearest to `digits` times ten to this power, the even one of two; none where that takes longer to find.
#[inline]
pub(super) fn nearest(digits: u64, exponent: i64) -> Option<f64> {
    if digits == 0 {
        return Some(0.0);
    }
    if !(LEAST..=MOST).contains(&exponent) {
        return None;
    }
    let five = FIVES[(exponent - LEAST) as usize];
    let zeros = digits.leading_zeros();
    let digits = digits << zeros;
    let product = u128::from(digits) * (five >> 64);
    let (mut high, mut low) = ((product >> 64) as u64, product as u64);
    let behind = u64::MAX >> (BITS + 3);
    if high & behind == behind {
        // What the lower half of the power adds may carry through.
        let more = ((u128::from(digits) * (five & u128::from(u64::MAX))) >> 64) as u64;
        let (sum, carry) = low.overflowing_add(more);
        (low, high) = (sum, high + u64::from(carry));
    }
    let upper = (high >> 63) as u32;
    let shift = upper + 64 - BITS - 3;
    let mut bits = high >> shift;
    let two = (((152_170 + 65_536) * exponent) >> 16) + 63 + i64::from(upper) - i64::from(zeros) + BIAS;
    if low <= 1 && (-4..=23).contains(&exponent) && bits & 3 == 1 && bits << shift == high {
        // A tie, and the one below is even.
        bits &= !1;
    }
    bits = (bits + (bits & 1)) >> 1;
    // Rounded up to the next power of two, the bits of the fraction are zero and one more is in the exponent.
    Some(f64::from_bits(((two as u64) << BITS) + bits - (1 << BITS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(digits: u64, exponent: i64) {
        let theirs: f64 = format!("{digits}e{exponent}").parse().unwrap();
        if let Some(ours) = nearest(digits, exponent) {
            assert_eq!(ours.to_bits(), theirs.to_bits(), "{digits}e{exponent}");
        } else {
            assert!(!(LEAST..=MOST).contains(&exponent));
        }
    }

    #[test]
    fn it_is_what_the_standard_library_finds() {
        let mut state = 7u64;
        for _ in 0..200_000 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let exponent = (state >> 32) as i64 % (MOST - LEAST + 5) + LEAST - 2;
            check(state.rotate_left(17) >> (state % 61), exponent);
        }
    }

    #[test]
    fn ties_go_to_the_even_one_and_their_neighbours_to_theirs() {
        for double in [1u64 << 53, (1 << 53) + 2, (1 << 54) + 4, (1 << 60) + 256, (1 << 63) + 2048, u64::MAX - 4095] {
            // Half a step of this double and its neighbours, as it is and as a tenth or a millionth of what is written.
            let half = 1 << (double.ilog2() - 53);
            for tie in [double + half, double - half, double + half + 1, double + half - 1, double + 3 * half, double] {
                check(tie, 0);
                check(tie / 1_000_000, 6);
                for (factor, exponent) in [(10u64, -1), (10_000, -4), (1_000_000, -6)] {
                    if let Some(more) = tie.checked_mul(factor) {
                        check(more, exponent);
                    }
                }
            }
        }
        for exponent in LEAST..=MOST {
            for digits in [1, 5, u64::MAX, 1 << 63, 9_007_199_254_740_993, 10_u64.pow(19)] {
                check(digits, exponent);
            }
        }
    }
}
