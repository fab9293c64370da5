//! Which columns reach the disk as they are, which as keyed hashes, and which not at all.

use std::collections::HashMap;
use std::fmt::Write;

use bytemuck::cast_slice;
use half::f16;
use ring::hmac::{self, HMAC_SHA256, Key};
use tidegate_codec::dtype::DType;
use tidegate_codec::tensors::{Column, Strings};

/// Bytes of a hash that are kept, as twice as many hexadecimal digits.
const KEPT_BYTES: usize = 16;

/// What becomes of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// It is written as it is.
    #[default]
    Plain,
    /// Each element is written as a hash.
    Hash,
    /// It is not written.
    Omit,
}

impl Rule {
    /// By the name that a config has for it.
    pub fn from_name(name: &str) -> Option<Rule> {
        [Rule::Hash, Rule::Omit].into_iter().find(|rule| rule.name() == name)
    }

    /// As a config has it, and the file's metadata.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Rule::Plain => "plain",
            Rule::Hash => "hash",
            Rule::Omit => "omit",
        }
    }
}

/// Rules by column, such as `in.email`; all others are plain.
#[derive(Clone, Debug)]
pub struct ColumnRules {
    rules: HashMap<String, Rule>,
    key: Key,
}

impl ColumnRules {
    /// Hashes are keyed with `salt`: who does not have it cannot try values out.
    pub fn new(rules: HashMap<String, Rule>, salt: &[u8]) -> ColumnRules {
        ColumnRules { rules, key: Key::new(HMAC_SHA256, salt) }
    }

    /// What becomes of this column.
    pub(crate) fn of(&self, column: &str) -> Rule {
        self.rules.get(column).copied().unwrap_or_default()
    }

    /// Each element as the first half of HMAC-SHA256 of its text: strings as they are, whole numbers in decimal, truth
    /// values as `true` and `false`, others as the shortest decimal that reads back as the same number, and of
    /// complex ones each part.
    pub(crate) fn hashed(&self, dtype: DType, values: &Column) -> Strings {
        let mut hashes = Strings::default();
        let mut hash = |value: &[u8]| {
            let tag = hmac::sign(&self.key, value);
            let mut text = String::with_capacity(2 * KEPT_BYTES);
            for byte in &tag.as_ref()[..KEPT_BYTES] {
                let _ = write!(text, "{byte:02x}");
            }
            hashes.push(text.as_bytes());
        };
        let words = match values {
            Column::Strings(strings) => {
                (0..strings.len()).for_each(|index| hash(strings.get(index)));
                return hashes;
            }
            Column::Raw(words) => words.as_bytes(),
        };
        macro_rules! each {
            ($kind:ty) => {
                cast_slice::<u8, $kind>(words).iter().for_each(|value| hash(value.to_string().as_bytes()))
            };
        }
        match dtype {
            DType::Bool => words.iter().for_each(|value| hash(if *value == 0 { b"false" } else { b"true" })),
            DType::Int8 => each!(i8),
            DType::Int16 => each!(i16),
            DType::Int32 => each!(i32),
            DType::Int64 => each!(i64),
            DType::UInt8 => each!(u8),
            DType::UInt16 => each!(u16),
            DType::UInt32 => each!(u32),
            DType::UInt64 => each!(u64),
            DType::Float32 | DType::Complex64 => each!(f32),
            DType::Float64 | DType::Complex128 => each!(f64),
            DType::Float16 => cast_slice::<u8, u16>(words)
                .iter()
                .for_each(|value| hash(f16::from_bits(*value).to_f32().to_string().as_bytes())),
            DType::String => unreachable!("strings are a column of their own kind"),
        }
        hashes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_text_and_of_the_salt() {
        let rules = |salt: &[u8]| ColumnRules::new(HashMap::from([("in.id".to_owned(), Rule::Hash)]), salt);
        let mut strings = Strings::default();
        strings.push(b"41");
        let mut numbers = Column::new(DType::Int64);
        if let Column::Raw(words) = &mut numbers {
            words.push(&41_i64.to_ne_bytes());
        }
        let text = rules(b"0123456789abcdef").hashed(DType::String, &Column::Strings(strings));
        let number = rules(b"0123456789abcdef").hashed(DType::Int64, &numbers);
        // printf 41 | openssl dgst -sha256 -hmac 0123456789abcdef
        assert_eq!(text.get(0), b"28ab45d982d0c971788cc8284fe83bd3");
        assert_eq!(number.get(0), text.get(0));
        assert_ne!(rules(b"another salt 123").hashed(DType::Int64, &numbers).get(0), text.get(0));
        assert_eq!([rules(b"").of("in.id"), rules(b"").of("in.x")], [Rule::Hash, Rule::Plain]);
    }
}
