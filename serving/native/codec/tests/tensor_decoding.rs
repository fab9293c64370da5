//! `TensorProto` into columns: every dtype, typed fields, fill with the last value, and all that is refused.
//! Speaks to the decoder directly; the endpoints' tests send the same over sockets.

use crate::support;
use crate::support::messages::{Request, content, tensor, varints};
use crate::support::random::Random;
use crate::support::{signature, spec};
use tidegate_codec::dtype::{ALL, DType};
use tidegate_codec::protobuf::predict::PredictRequest;
use tidegate_codec::protobuf::tensor::{self as tensor_proto, Numbers};
use tidegate_codec::protobuf::wire;
use tidegate_codec::signatures::{Signature, TensorSpec};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::{Column, ColumnPool, Lease, Lender, Page, Slice, Tensor};

const LIMIT: usize = 1 << 20;

fn read(spec: &TensorSpec, message: &[u8]) -> Result<Column, Status> {
    let mut column = Column::new(spec.dtype);
    let signature = signature(vec![spec.clone()], vec![spec.clone()]);
    tensor_proto::read(message, &signature, 0, &mut column, LIMIT, (&mut (), Lender::default())).map(|_| column)
}

fn raw(column: Column) -> Vec<u8> {
    match column {
        Column::Raw(words) => words.as_bytes().to_vec(),
        Column::Strings(_) => panic!("strings"),
    }
}

fn strings(column: &Column) -> Vec<&[u8]> {
    match column {
        Column::Strings(strings) => (0..strings.len()).map(|index| strings.get(index)).collect(),
        Column::Raw(_) => panic!("raw"),
    }
}

/// Two elements of each dtype as little-endian bytes and as varints for their value field.
fn samples(dtype: DType) -> (Vec<u8>, Vec<i64>) {
    match dtype {
        DType::Bool => (vec![1, 0], vec![1, 0]),
        DType::Int8 => (vec![0xff, 7], vec![-1, 7]),
        DType::Int16 => ([(-300i16).to_le_bytes(), 7i16.to_le_bytes()].concat(), vec![-300, 7]),
        DType::Int32 => ([(-70_000i32).to_le_bytes(), 7i32.to_le_bytes()].concat(), vec![-70_000, 7]),
        DType::Int64 => ([i64::MIN.to_le_bytes(), 7i64.to_le_bytes()].concat(), vec![i64::MIN, 7]),
        DType::UInt8 => (vec![255, 7], vec![255, 7]),
        DType::UInt16 => ([65_535u16.to_le_bytes(), 7u16.to_le_bytes()].concat(), vec![65_535, 7]),
        DType::UInt32 => ([u32::MAX.to_le_bytes(), 7u32.to_le_bytes()].concat(), vec![i64::from(u32::MAX), 7]),
        DType::UInt64 => ([u64::MAX.to_le_bytes(), 7u64.to_le_bytes()].concat(), vec![-1, 7]),
        DType::Float16 => (vec![0x00, 0x3c, 0x00, 0xc0], vec![0x3c00, 0xc000]),
        DType::Float32 | DType::Float64 | DType::String | DType::Complex64 | DType::Complex128 => {
            (Vec::new(), Vec::new())
        }
    }
}

#[test]
fn every_number_type_is_read_from_content_and_from_its_value_field() {
    for dtype in ALL {
        let (bytes, values) = samples(dtype);
        if values.is_empty() {
            continue;
        }
        let spec = spec("x", dtype, &[-1]);
        let number = dtype.tensorflow();
        assert_eq!(raw(read(&spec, &tensor(number, &[2], &content(&bytes))).unwrap()), bytes, "{dtype:?} content");
        let field = tensor_proto::value_field(dtype);
        assert_eq!(raw(read(&spec, &tensor(number, &[2], &varints(field, &values))).unwrap()), bytes, "{dtype:?}");
        let mut unpacked = Vec::new();
        values.iter().for_each(|value| wire::put_uint(&mut unpacked, field, *value as u64));
        assert_eq!(raw(read(&spec, &tensor(number, &[2], &unpacked)).unwrap()), bytes, "{dtype:?} unpacked");
        let filled = raw(read(&spec, &tensor(number, &[4], &varints(field, &values))).unwrap());
        let last = &bytes[dtype.size()..];
        assert_eq!(filled, [&bytes[..], last, last].concat(), "{dtype:?} filled with the last value");
    }
}

#[test]
fn floats_are_read_packed_unpacked_and_filled() {
    let single = spec("x", DType::Float32, &[-1, 2]);
    let bytes: Vec<u8> = [1.5f32, -2.0, 0.25, f32::NAN].iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut packed = Vec::new();
    wire::put_bytes(&mut packed, 5, &bytes);
    assert_eq!(raw(read(&single, &tensor(1, &[2, 2], &packed)).unwrap()), bytes);
    let mut apart = Vec::new();
    for four in bytes.chunks_exact(4) {
        wire::put_key(&mut apart, 5, wire::FIXED32);
        apart.extend_from_slice(four);
    }
    assert_eq!(raw(read(&single, &tensor(1, &[2, 2], &apart)).unwrap()), bytes);
    let mut one = Vec::new();
    wire::put_bytes(&mut one, 5, &bytes[..4]);
    assert_eq!(raw(read(&single, &tensor(1, &[2, 2], &one)).unwrap()), bytes[..4].repeat(4));
    let double = spec("x", DType::Float64, &[-1]);
    let mut packed = Vec::new();
    wire::put_bytes(&mut packed, 6, &0.1f64.to_le_bytes());
    assert_eq!(raw(read(&double, &tensor(2, &[1], &packed)).unwrap()), 0.1f64.to_le_bytes());
}

#[test]
fn complex_numbers_are_read_from_their_parts_and_written_so() {
    for (dtype, field, size) in [(DType::Complex64, 9, 4), (DType::Complex128, 12, 8)] {
        let part = |value: f64| match size {
            4 => (value as f32).to_le_bytes().to_vec(),
            _ => value.to_le_bytes().to_vec(),
        };
        let parts = [1.5, -2.25, 0.5, f64::NEG_INFINITY].map(part);
        let (bytes, x) = (parts.concat(), spec("x", dtype, &[-1]));
        let (mut packed, mut apart, mut odd) = (Vec::new(), Vec::new(), Vec::new());
        wire::put_bytes(&mut packed, field, &bytes);
        for part in &parts {
            wire::put_key(&mut apart, field, if size == 4 { wire::FIXED32 } else { wire::FIXED64 });
            apart.extend_from_slice(part);
        }
        wire::put_bytes(&mut odd, field, &bytes[..3 * size]);
        let number = dtype.tensorflow();
        for fields in [&packed, &apart, &content(&bytes)] {
            assert_eq!(raw(read(&x, &tensor(number, &[2], fields)).unwrap()), bytes);
        }
        let last = &bytes[2 * size..];
        assert_eq!(raw(read(&x, &tensor(number, &[3], &packed)).unwrap()), [&bytes[..], last].concat());
        assert!(refused(&x, &tensor(number, &[2], &odd)).contains("has no imaginary part, send both parts of each"));
        assert!(
            refused(&x, &tensor(number, &[1], &packed))
                .contains(&format!("has 2 values in {}complex_val", ["s", "d"][size / 8]))
        );
        assert!(refused(&x, &tensor(1, &[1], &[])).contains(&format!("to be {} but float is provided", dtype.name())));
        let column = read(&x, &tensor(number, &[2], &packed)).unwrap();
        let slice = Slice { dtype, column: &column, inner: &[], first: 0, rows: 2, unbatched: false };
        for numbers in [Numbers::InFields, Numbers::AsContent] {
            let mut written = Vec::new();
            tensor_proto::write(&mut written, &slice, numbers);
            assert_eq!(written.len(), tensor_proto::length(&slice, numbers));
            assert_eq!(raw(read(&x, &written).unwrap()), bytes, "{numbers:?}");
        }
    }
}

#[test]
fn bfloat16_is_read_as_the_floats_that_it_is() {
    let halves = [0x3fc0u16, 0xc010];
    let values = halves.map(i64::from).to_vec();
    let floats = [1.5f32, -2.25].map(f32::to_le_bytes).concat();
    let x = spec("x", DType::Float32, &[-1]);
    let bytes = halves.map(u16::to_le_bytes).concat();
    assert_eq!(raw(read(&x, &tensor(14, &[2], &content(&bytes))).unwrap()), floats);
    assert_eq!(raw(read(&x, &tensor(14, &[2], &varints(13, &values))).unwrap()), floats);
    assert_eq!(
        raw(read(&x, &tensor(14, &[2], &varints(13, &values[..1]))).unwrap()),
        [floats[..4].to_vec(), floats[..4].to_vec()].concat()
    );
    assert_eq!(raw(read(&x, &tensor(14, &[2], &[])).unwrap()), [0; 8]);
    let short = refused(&x, &tensor(14, &[3], &content(&bytes)));
    assert_eq!(short, "tensor parsing error: x: 4 bytes of tensor_content, but shape [3] of bfloat16 needs 6");
    assert!(refused(&x, &tensor(14, &[1], &varints(13, &values))).contains("has 2 values in half_val"));
    let other = refused(&spec("x", DType::Float64, &[-1]), &tensor(14, &[2], &content(&bytes)));
    assert!(other.contains("to be double but bfloat16 is provided"), "{other}");
}

#[test]
fn content_of_bools_becomes_zero_or_one() {
    let spec = spec("x", DType::Bool, &[-1]);
    assert_eq!(raw(read(&spec, &tensor(10, &[3], &content(&[0, 2, 255]))).unwrap()), [0, 1, 1]);
}

#[test]
fn strings_are_read_and_filled() {
    let spec = spec("s", DType::String, &[-1, 2]);
    let mut fields = Vec::new();
    wire::put_bytes(&mut fields, 8, b"a");
    wire::put_bytes(&mut fields, 8, b"\xff\0");
    let column = read(&spec, &tensor(7, &[2, 2], &fields)).unwrap();
    assert_eq!(strings(&column), [&b"a"[..], b"\xff\0", b"\xff\0", b"\xff\0"]);
}

#[test]
fn strings_are_read_from_content_as_tensorflow_packs_them() {
    let spec = spec("s", DType::String, &[-1, 2]);
    let long = vec![b'l'; 300];
    let packed = [&[1, 0, 0xac, 2, 2][..], b"a", &long, b"\xff\0"].concat();
    let column = read(&spec, &tensor(7, &[2, 2], &content(&packed))).unwrap();
    assert_eq!(strings(&column), [&b"a"[..], b"", &long, b"\xff\0"]);
    let endless = [0xff; 11];
    for wrong in [&b"\x01\x01\x01\x01abc"[..], b"\x01\x01\x01\x01abcde", b"\x01\x01\x01", &endless] {
        let text = "tensor parsing error: s: tensor_content does not hold 4 strings";
        assert_eq!(refused(&spec, &tensor(7, &[2, 2], &content(wrong))), text);
    }
}

fn refused(spec: &TensorSpec, message: &[u8]) -> String {
    let status = read(spec, message).unwrap_err();
    assert_eq!(status.code, Code::InvalidArgument, "{status}");
    status.message
}

#[test]
fn a_wrong_dtype_is_refused_by_name() {
    let spec = spec("age", DType::Float32, &[-1]);
    let of = |dtype| refused(&spec, &tensor(dtype, &[1], &content(&[0; 4])));
    let text = |sent: &str| format!("Expects arg[0] to be float but {sent} is provided: send input 'age' as float");
    assert_eq!(of(9), text("int64"));
    assert_eq!(of(2), text("double"));
    assert_eq!(of(8), text("complex64"));
    assert_eq!(of(20), text("resource"));
    for none in [0, 101] {
        assert_eq!(of(none), format!("tensor parsing error: age: dtype is {none}, send DT_FLOAT"));
    }
}

#[test]
fn a_wrong_shape_or_count_is_refused_with_both_numbers() {
    let pair = spec("x", DType::Float32, &[-1, 2]);
    let of = |shape: &[i64], bytes: usize| refused(&pair, &tensor(1, shape, &content(&vec![0; bytes])));
    assert_eq!(of(&[1, 3], 12), "input 'x' has shape [1,3], but the signature expects [-1,2]");
    assert_eq!(of(&[2], 8), "input 'x' has shape [2], but the signature expects [-1,2]");
    assert_eq!(
        of(&[], 4),
        "Batching Run() input tensors must have at least one dimension: input 'x' has shape [], but the signature \
         expects [-1,2]"
    );
    assert_eq!(
        of(&[1, 2], 7),
        "tensor parsing error: x: 7 bytes of tensor_content, but shape [1,2] of float32 needs 8"
    );
    assert_eq!(of(&[-1, 2], 8), "tensor parsing error: x: dimension 0 has size -1");
    let mut packed = Vec::new();
    wire::put_bytes(&mut packed, 5, &[0; 12]);
    let text = "input 'x' has 3 values in float_val, but shape [1,2] needs 2 (or fewer, the last one filling the rest)";
    assert_eq!(refused(&pair, &tensor(1, &[1, 2], &packed)), text);
    let byte = spec("b", DType::UInt8, &[-1]);
    let text = "input 'b' has value 256, which does not fit its dtype uint8";
    assert_eq!(refused(&byte, &tensor(4, &[1], &varints(7, &[256]))), text);
}

#[test]
fn one_value_cannot_fill_more_memory_than_the_limit() {
    let spec = spec("x", DType::Float32, &[-1]);
    let mut one = Vec::new();
    wire::put_bytes(&mut one, 5, &[0; 4]);
    for rows in [LIMIT as i64, i64::MAX] {
        let status = read(&spec, &tensor(1, &[rows], &one)).unwrap_err();
        assert_eq!(status.code, Code::ResourceExhausted);
        assert!(status.message.contains("limit of 1048576 bytes"), "{status}");
    }
}

fn two_inputs() -> Signature {
    let inputs = vec![spec("a", DType::Float32, &[-1]), spec("b", DType::String, &[-1])];
    signature(inputs, vec![spec("y", DType::Float32, &[-1])])
}

fn read_request(signature: &Signature, message: &[u8]) -> Result<(usize, Vec<Lease>), Status> {
    let mut columns = ColumnPool::new(signature.inputs.iter().map(|spec| spec.dtype).collect()).lease();
    let request = PredictRequest::parse(message)?;
    let intake = request.read_inputs(
        signature,
        &mut Page { columns: &mut columns, shapes: &mut Vec::new(), room: &mut () },
        LIMIT,
    )?;
    Ok((intake.rows, columns))
}

#[test]
fn an_input_that_comes_twice_does_not_stand_in_for_one_that_is_missing() {
    let floats = || support::messages::float_tensor(&[1.0, 2.0]);
    let twice = Request::new("m").input("a", floats()).input("a", floats());
    let refused = read_request(&two_inputs(), &twice.encode()).map(|(rows, _)| rows).unwrap_err();
    assert_eq!((refused.code, &*refused.message), (Code::InvalidArgument, "input 'a' came twice: send it once"));
}

fn good_request() -> Request {
    let mut text = Vec::new();
    wire::put_bytes(&mut text, 8, b"x");
    Request::new("m")
        .signature("serving_default")
        .label("stable")
        .input("b", tensor(7, &[2], &text))
        .input("a", support::messages::float_tensor(&[1.0, 2.0]))
        .only("y")
}

#[test]
fn inputs_are_found_in_any_order() {
    let (rows, columns) = read_request(&two_inputs(), &good_request().encode()).unwrap();
    assert_eq!(rows, 2);
    assert_eq!(support::floats(&columns[0]), [1.0, 2.0]);
    assert_eq!(strings(&columns[1]), [b"x", b"x"]);
}

#[test]
fn as_many_inputs_with_a_name_too_many_are_told_what_is_missing() {
    let two = two_inputs();
    let one = || support::messages::float_tensor(&[1.0]);
    let message = Request::new("m").input("a", one()).input("c", one()).encode();
    assert_eq!(
        read_request(&two, &message).unwrap_err().message,
        "Signature input alias: b(feed name: b) not found in request and no default value provided. Inputs expected to \
         be in the request {a,c}, or default input alias set: "
    );
    let default = Tensor { column: Column::new(DType::String), shape: vec![0] };
    let with_default = two.with_defaults(vec![None, Some(default)]);
    assert_eq!(
        read_request(&with_default, &message).unwrap_err().message,
        "Inputs contains invalid name. Used request inputs: a, request input: a,c"
    );
    let wrong = Request::new("m").input("b", one()).input("a", one()).encode();
    assert_eq!(
        read_request(&with_default, &wrong).unwrap_err().message,
        "Expects arg[1] to be string but float is provided: send input 'b' as string"
    );
}

#[test]
fn extra_and_missing_inputs_are_named_as_in_tensorflow_serving() {
    let message = Request::new("m").input("c", support::messages::float_tensor(&[1.0])).encode();
    let status = read_request(&two_inputs(), &message).unwrap_err();
    assert_eq!(
        status.message,
        "input size does not match signature: 1!=2 len({c}) != len({a,b}). Sent extra: {c}. Missing but required: \
         {a,b}."
    );
}

#[test]
fn inputs_with_different_numbers_of_rows_are_refused() {
    let message = good_request().encode();
    let longer = Request { inputs: vec![("a".to_owned(), support::messages::float_tensor(&[1.0]))], ..good_request() };
    let longer = longer.input(
        "b",
        tensor(7, &[2], &{
            let mut text = Vec::new();
            wire::put_bytes(&mut text, 8, b"x");
            text
        }),
    );
    assert!(read_request(&two_inputs(), &message).is_ok());
    let status = read_request(&two_inputs(), &longer.encode()).unwrap_err();
    assert!(status.message.ends_with("input 'a' has 1 rows, input 'b' has 2"), "{status}");
}

#[test]
fn damaged_messages_are_refused_or_read_but_never_panic() {
    let message = good_request().encode();
    let (mut random, mut refused) = (Random(7), 0);
    for _ in 0..50_000 {
        let damaged = random.damage(&message);
        match read_request(&two_inputs(), &damaged) {
            Ok((rows, columns)) => assert!(columns.iter().all(|column| column.extent() >= rows.min(1))),
            Err(status) => {
                assert!(!status.message.is_empty());
                refused += 1;
            }
        }
    }
    assert!(refused > 10_000, "{refused}");
}
