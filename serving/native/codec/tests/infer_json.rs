//! Infer requests in JSON as clients with typed requests write them.

use crate::support::{floats, signature, spec};
use tidegate_codec::dtype::DType;
use tidegate_codec::open_inference::json_request::parse;
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, ColumnPool, Page};

/// The rows and the bytes that are read of an input `x` of this type and shape from a body that is nothing else.
fn read_alone(dtype: DType, shape: &[i64], body: &[u8]) -> Result<(usize, Vec<u8>), Status> {
    let signature = signature(vec![spec("x", dtype, shape)], vec![spec("y", DType::Float32, &[-1])]);
    let mut columns = ColumnPool::new(vec![dtype]).lease();
    let mut shapes = Vec::new();
    let mut page = Page { columns: &mut columns, shapes: &mut shapes, room: &mut () };
    let rows = parse(body, 0)?.read_inputs(&signature, &mut page, 1 << 20)?.rows;
    let bytes = match &*columns[0] {
        Column::Raw(words) => words.as_bytes().to_vec(),
        Column::Strings(strings) => strings.get(0).to_vec(),
    };
    Ok((rows, bytes))
}

#[test]
fn a_body_without_json_is_the_only_input() {
    let body = [1.5f32, -2.0, 0.5, 4.0].map(f32::to_le_bytes).concat();
    for (shape, rows) in [(&[-1][..], 4), (&[-1, 2], 2), (&[-1, 4], 1), (&[-1, -1], 1), (&[-1, -1, 2], 1)] {
        assert_eq!(read_alone(DType::Float32, shape, &body).unwrap(), (rows, body.clone()), "{shape:?}");
    }
    assert_eq!(read_alone(DType::String, &[-1], b"\xff\0g").unwrap(), (1, b"\xff\0g".to_vec()));
    assert_eq!(read_alone(DType::String, &[-1, 1], b"a").unwrap(), (1, b"a".to_vec()));
    let of = |shape: &[i64]| read_alone(DType::Float32, shape, &body).unwrap_err().message;
    assert_eq!(
        of(&[-1, 3]),
        "a body of 16 bytes without JSON does not say the shape of input 'x', which is [-1,3] of FP32: send JSON that does"
    );
    assert!(of(&[-1, -1, -1]).starts_with("a body of 16 bytes without JSON does not say the shape"));
    assert!(read_alone(DType::String, &[-1, 2], b"a").unwrap_err().message.contains("does not say the shape"));
    let cut = read_alone(DType::Float32, &[-1], &body[..15]).unwrap_err().message;
    assert_eq!(cut, "input 'x' has 15 bytes, but shape [3] of FP32 needs 12");
    assert_eq!(parse(b"", 0).unwrap_err().message, "JSON Parse error: The document is empty");
}

/// What is read of an input `x` of floats: this tensor, with these bytes behind the JSON.
fn read(tensor: &str, bytes: &[u8]) -> Result<Vec<f32>, Status> {
    let json = format!(r#"{{"inputs":[{{"name":"x",{tensor}}}]}}"#);
    let body = [json.as_bytes(), bytes].concat();
    let request = parse(&body, json.len())?;
    let floats_in = signature(vec![spec("x", DType::Float32, &[-1])], vec![spec("y", DType::Float32, &[-1])]);
    let mut columns = ColumnPool::new(vec![DType::Float32]).lease();
    let mut shapes = Vec::new();
    let mut page = Page { columns: &mut columns, shapes: &mut shapes, room: &mut () };
    request.read_inputs(&floats_in, &mut page, 1 << 20).map(|_| floats(&columns[0]))
}

#[test]
fn bfloat16_is_taken_as_the_floats_that_it_is() {
    let two = r#""shape":[2],"datatype":"BF16","parameters":{"binary_data_size":4}"#;
    assert_eq!(read(two, &[0xc0, 0x3f, 0x10, 0xc0]).unwrap(), [1.5, -2.25]);
    let said = |tensor: &str, bytes: &[u8]| read(tensor, bytes).unwrap_err().message;
    assert_eq!(said(&two.replace("[2]", "[3]"), &[0; 4]), "input 'x' has 4 bytes, but shape [3] of BF16 needs 6");
    let listed = r#""shape":[1],"datatype":"BF16","data":[1.5]"#;
    assert_eq!(said(listed, &[]), "input 'x' is BF16 and no raw bytes: send it as raw bytes, or as FP32");
}

#[test]
fn a_column_is_a_list_of_its_values() {
    assert_eq!(read(r#""shape":[2,1],"datatype":"FP32","data":[[1],[2]]"#, &[]).unwrap(), [1.0, 2.0]);
    let wide = read(r#""shape":[1,2],"datatype":"FP32","data":[1,2]"#, &[]).unwrap_err();
    assert_eq!(wide.message, "input 'x' has shape [1,2], but the model expects [-1]");
}

#[test]
fn an_input_without_a_shape_is_refused() {
    let bare = read(r#""datatype":"FP32","data":[1]"#, &[]).unwrap_err();
    assert_eq!(bare.message, "input 'x' has no 'shape': send that of its data");
}

#[test]
fn a_size_that_is_none_is_told_as_it_was_sent() {
    let refused =
        |size: &str| read(&format!(r#""datatype":"FP32","shape":[{size}],"data":[1]"#), &[]).unwrap_err().message;
    for size in ["9223372036854775808", "18446744073709551615", "18446744073709551616", "1.0"] {
        let wanted = format!("'shape' of an input is {size}: send a list of whole numbers");
        assert_eq!(refused(size), wanted);
    }
    assert_eq!(refused("-1"), "input 'x' has a dimension of size -1: send the shape of the data");
}

#[test]
fn a_null_is_a_member_that_was_left_out() {
    let typed = r#"{"id":null,"model_name":null,"parameters":null,"outputs":null,"inputs":[{"name":"x","shape":[1],
        "datatype":"FP32","parameters":null,"data":[1]}]}"#;
    assert_eq!(parse(typed.as_bytes(), typed.len()).unwrap().id, "");
    let output = r#"{"inputs":[],"outputs":[{"name":"y","parameters":null}],"parameters":{"signature_name":null,
        "binary_data_output":null,"priority":null,"timeout":null,"sequence_id":null}}"#;
    let request = parse(output.as_bytes(), output.len()).unwrap();
    assert_eq!((&*request.signature_name, request.priority, request.timeout_us), ("", 0, 0));
    for (body, said) in [
        (r#"{"inputs":null}"#, "'inputs' is null: send a list"),
        (r#"{"inputs":[{"name":null}]}"#, "'name' is null: send a string"),
        (r#"{"id":nil,"inputs":[]}"#, "'id' is nil,\"inputs\":[]}: send a string"),
    ] {
        assert_eq!(parse(body.as_bytes(), body.len()).unwrap_err().message, said);
    }
}

#[test]
fn a_parameter_is_one_value() {
    let refused = |json: String| parse(json.as_bytes(), json.len()).unwrap_err().message;
    let input = r#""name":"x","shape":[1],"datatype":"FP32","data":[1]"#;
    for value in ["[1]", r#"{"a":1}"#] {
        let wanted = format!("parameter 'p' is {value}: send a string, a number, true or false");
        let parameters = format!(r#""parameters":{{"p":{value}}}"#);
        assert_eq!(refused(format!(r#"{{"inputs":[{{{input}}}],{parameters}}}"#)), wanted);
        assert_eq!(refused(format!(r#"{{"inputs":[{{{input},{parameters}}}]}}"#)), wanted);
        assert_eq!(refused(format!(r#"{{"inputs":[],"outputs":[{{"name":"y",{parameters}}}]}}"#)), wanted);
    }
    let known = format!(r#"{{"inputs":[{{{input}}}],"parameters":{{"a":"b","c":1.5,"d":-1,"e":true,"f":null}}}}"#);
    assert!(parse(known.as_bytes(), known.len()).is_ok());
}
