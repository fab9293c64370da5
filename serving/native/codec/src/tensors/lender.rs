//! The message that a request's inputs are read from. A large input that is about all of it is not copied: its column keeps
//! the message.

use bytes::Bytes;

use crate::tensors::column::Words;

/// Fewer bytes are copied at once.
const LARGE: usize = 64 << 10;

/// A message may have so many bytes beside the input for which it is kept.
const BESIDE: usize = 4 << 10;

/// A message, where its bytes outlive the request that is read from it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lender<'a>(pub Option<&'a Bytes>);

impl Lender<'_> {
    /// Appends a part of the message, or has an empty column keep the message.
    #[inline]
    pub fn put(self, part: &[u8], words: &mut Words) {
        match self.0 {
            Some(message) if part.len() >= LARGE && part.len() + BESIDE >= message.len() && words.is_empty() => {
                *words = Words::lent(message.slice_ref(part));
            }
            _ => words.push(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_kept_for_one_large_input_and_little_beside_it() {
        let message = Bytes::from(vec![7; LARGE + 2 * BESIDE]);
        let put = |part: &[u8], before: &[u8], lender: Lender<'_>| {
            let mut words = Words::default();
            words.push(before);
            lender.put(part, &mut words);
            assert_eq!(words.as_bytes(), [before, part].concat());
            words.as_bytes().as_ptr() == part.as_ptr()
        };
        let (whole, lender) = (&message[BESIDE..], Lender(Some(&message)));
        assert!(put(whole, &[], lender));
        assert!(!put(whole, &[], Lender::default()), "nobody says that it stays");
        assert!(!put(whole, &[1], lender), "others' rows are there");
        assert!(!put(&whole[1..], &[], lender), "too much would be kept beside it");
        let small = message.slice(..LARGE - 1);
        assert!(!put(&small, &[], Lender(Some(&small))), "to copy it costs less");
    }
}
