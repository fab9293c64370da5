//! Numbers in JSON: read as the standard library reads them, alone and in lists, up to where their digits end.

use crate::json::{one, raw, refused};
use crate::support::random::Random;
use tidegate_codec::dtype::DType;
use tidegate_codec::json::scanner::Scanner;
use tidegate_codec::tensors::Number;

#[test]
fn numbers_are_read_as_the_standard_library_reads_them() {
    let mut random = Random(11);
    for round in 0..200_000 {
        let value = f64::from_bits(random.next());
        if !value.is_finite() {
            continue;
        }
        let text = match round % 4 {
            0 => format!("{value:e}"),
            1 => format!("{:.6}", (random.next() as i64 % 10_000_000) as f64 / 1000.0),
            2 => format!("{}.{}e{}", random.below(1 << 20), random.below(1 << 30), random.below(40) as i64 - 20),
            _ => format!("{value:.17e}"),
        };
        let Number::Float(read) = Scanner::new(text.as_bytes()).number().unwrap() else {
            continue;
        };
        assert_eq!(read.to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
    }
}

#[test]
fn lists_of_numbers_are_read_alike_however_they_are_spaced() {
    let values = ["1", "-2.5", "0.48331859707832336", "NaN", "-Infinity", "3e-7", "18446744073709551615", "-0.0", "7"];
    let wanted: Vec<f64> = values.iter().map(|value| value.replace("Infinity", "inf").parse().unwrap()).collect();
    for between in [",", ", ", ",  ", " ,", ",\n", "\t, "] {
        let (wide, narrow) = (one(DType::Float64, &[-1, 9]), one(DType::Float32, &[-1, -1]));
        let body = format!(r#"{{"instances":[[{}]]}}"#, values.join(between));
        let bytes: Vec<u8> = wanted.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(raw(&wide, &body), bytes, "{between:?}");
        let bytes: Vec<u8> = wanted.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect();
        assert_eq!(raw(&narrow, &body), bytes, "{between:?}");
        for wrong in ["1..2", "-", "01"] {
            let before = format!(r#"{{"instances":[[1{between}2{between}"#);
            let why = refused(&wide, &format!("{before}{wrong}{between}4]]}}"));
            assert!(why.ends_with(&format!("offset: {}", before.len())), "{why}");
        }
        let more = format!(r#"{{"instances":[[{}{between}8]]}}"#, values.join(between));
        assert!(refused(&wide, &more).contains("10"), "{}", refused(&wide, &more));
    }
}

#[test]
fn a_number_ends_where_its_digits_end() {
    for digits in 1..20 {
        for byte in (0..=255u8).filter(|byte| !byte.is_ascii_digit() && !b".eE".contains(byte)) {
            let number = "1234567890123456789"[..digits].to_owned();
            let mut text = number.clone().into_bytes();
            text.extend([byte, b'0', b'1', b'2', b'3', b'4', b'5', b'6', b'7']);
            let mut scanner = Scanner::new(&text);
            assert_eq!(scanner.number().unwrap(), Number::Unsigned(number.parse().unwrap()), "before byte {byte}");
            assert_eq!(scanner.offset(), digits, "before byte {byte}");
        }
    }
}
