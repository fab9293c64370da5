//! Strings as TensorFlow puts them into `tensor_content`: the lengths of all of them, then their bytes.

use crate::protobuf::wire::Reader;
use crate::tensors::Strings;

/// Appends so many strings; none where the content holds others. A part of them may be appended then.
pub fn read(content: &[u8], count: usize, strings: &mut Strings) -> Option<()> {
    let mut rest = bytes_of(content, count)?;
    let mut lengths = Reader::new(content);
    for _ in 0..count {
        let (one, others) = rest.split_at_checked(next_length(&mut lengths)?)?;
        strings.push(one);
        rest = others;
    }
    Some(())
}

/// What stands behind the lengths, which are looked through first: they must add up before anything is kept.
fn bytes_of(content: &[u8], count: usize) -> Option<&[u8]> {
    let (mut lengths, mut total) = (Reader::new(content), 0usize);
    for _ in 0..count {
        total = total.checked_add(next_length(&mut lengths)?)?;
    }
    Some(lengths.rest()).filter(|rest| rest.len() == total)
}

fn next_length(lengths: &mut Reader<'_>) -> Option<usize> {
    lengths.next_varint().ok()?.and_then(|length| usize::try_from(length).ok())
}
