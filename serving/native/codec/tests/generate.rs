//! Generate requests and answers: what stands for a tensor of one element, what is a parameter, and how outputs are written.

use crate::support::{floats, signature, spec};
use tidegate_codec::dtype::DType;
use tidegate_codec::json::plain_object::PlainObject;
use tidegate_codec::open_inference::generate;
use tidegate_codec::signatures::{FirstAxis, Signature};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, ColumnPool, Page, Slice, Strings, Words};

fn free(shape: &[i64]) -> Signature {
    let (inputs, outputs) = (vec![spec("x", DType::Float32, shape)], vec![spec("y", DType::Float32, &[])]);
    Signature::with_axis("serving_default".to_owned(), String::new(), inputs, outputs, FirstAxis::Free).unwrap()
}

fn batched(shape: &[i64]) -> Signature {
    signature(vec![spec("x", DType::Float32, shape)], vec![spec("y", DType::Float32, &[-1])])
}

/// The values of `x`, and its shape where the signature leaves it open.
fn read(signature: &Signature, body: &str, lenient: bool) -> Result<(Vec<f32>, Vec<Vec<usize>>), Status> {
    let object = PlainObject::parse(body.as_bytes())?;
    let object = if lenient { object.lenient() } else { object };
    let mut columns = ColumnPool::new(vec![DType::Float32]).lease();
    let mut shapes = Vec::new();
    object.read_inputs(signature, &mut Page { columns: &mut columns, shapes: &mut shapes, room: &mut () })?;
    Ok((floats(&columns[0]), shapes))
}

#[test]
fn one_value_is_enough_for_a_tensor_of_one_element() {
    for (signature, inner) in [(free(&[-1]), vec![1]), (free(&[-1, 1]), vec![1, 1]), (batched(&[-1, -1]), vec![1])] {
        assert_eq!(read(&signature, r#"{"x":2.5}"#, true).unwrap(), (vec![2.5], vec![inner]));
        assert!(read(&signature, r#"{"x":2.5}"#, false).is_err(), "only where it is told to");
    }
    assert_eq!(read(&batched(&[-1, 1]), r#"{"x":[2.5]}"#, true).unwrap().0, [2.5]);
    assert_eq!(read(&free(&[-1]), r#"{"x":[1,2]}"#, true).unwrap(), (vec![1.0, 2.0], vec![vec![2]]));
    assert!(read(&free(&[2]), r#"{"x":2.5}"#, true).is_err());
}

#[test]
fn what_is_no_input_is_a_parameter_unless_it_is_a_list_or_an_object() {
    let body = r#"{"top_p":0.5,"stop":"\n","stream":true,"none":null,"parameters":{"a":[1]},"x":2.5}"#;
    assert_eq!(read(&free(&[]), body, true).unwrap().0, [2.5]);
    assert!(read(&free(&[]), body, false).is_err());
    for other in [r#"{"x":2.5,"z":[1]}"#, r#"{"x":2.5,"z":{"a":1}}"#] {
        let why = read(&free(&[]), other, true).unwrap_err().message;
        assert!(why.contains("member 'z' is none of the inputs"), "{why}");
    }
    assert!(read(&free(&[]), r#"{"y":2.5}"#, true).unwrap_err().message.contains("member 'x' is missing"));
}

#[test]
fn one_element_is_written_as_it_is_and_more_as_a_flat_list() {
    let (mut words, mut strings) = (Words::default(), Strings::default());
    [0.5f32, f32::MAX, -1.0, 4.0].iter().for_each(|value| words.push(&value.to_le_bytes()));
    [&b"ebb"[..], b"\xff"].iter().for_each(|value| strings.push(value));
    let (numbers, texts) = (Column::Raw(words), Column::Strings(strings));
    let slice = |dtype, column, inner, first| Slice { dtype, column, inner, first, rows: 1, unbatched: false };
    let outputs = [
        ("all", slice(DType::Float32, &numbers, &[2, 2][..], 0)),
        ("one", slice(DType::Float32, &numbers, &[], 2)),
        ("none", slice(DType::Float32, &numbers, &[0], 0)),
        ("texts", slice(DType::String, &texts, &[2], 0)),
        ("text", slice(DType::String, &texts, &[1], 0)),
    ];
    let expected = r#"{"model_name":"m","model_version":"3","all":[0.5,3.4028235e38,-1.0,4.0],"one":-1.0,"none":[],"texts":["ebb",{"b64":"/w=="}],"text":"ebb"}"#;
    assert_eq!(String::from_utf8(generate::encode("m", 3, &outputs)).unwrap(), expected);
}
