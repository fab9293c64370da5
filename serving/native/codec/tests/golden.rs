//! The tensor layout that crosses to Python and to other processes, against the bytes that pytest reads too.
//! And our field numbers against the checked-in descriptor set, the one source of the protocol.

use crate::support::messages::{bytes_of, varint_of};
use crate::support::{signature, spec};
use half::f16;
use tidegate_codec::dtype::{ALL, DType};
use tidegate_codec::json::predict_request::JsonRequest;
use tidegate_codec::json::scanner::Scanner;
use tidegate_codec::protobuf::tensor;
use tidegate_codec::tensors::{Column, ColumnPool, Number, Page};

const LAYOUT: &[u8] = include_bytes!("../../../../tests/golden/tensor_layout.json");
const DESCRIPTORS: &[u8] = include_bytes!("../../../tidegate_serving/contract/protos/descriptors.binpb");

#[derive(Default, Debug)]
struct Case {
    dtype: String,
    inner: Vec<i64>,
    rows: u64,
    request: String,
    offsets: String,
    bytes: String,
}

fn text(scanner: &mut Scanner<'_>) -> String {
    let mut out = Vec::new();
    scanner.string_into(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn number(scanner: &mut Scanner<'_>) -> u64 {
    match scanner.number().unwrap() {
        Number::Unsigned(value) => value,
        other => panic!("{other:?}"),
    }
}

fn case(scanner: &mut Scanner<'_>) -> Case {
    let (mut case, mut first) = (Case::default(), true);
    assert!(scanner.eat(b'{'));
    while scanner.more(b'}', first).unwrap() {
        first = false;
        match scanner.key(&mut Vec::new()).unwrap() {
            b"dtype" => case.dtype = text(scanner),
            b"rows" => case.rows = number(scanner),
            b"request" => case.request = text(scanner),
            b"offsets" => case.offsets = text(scanner),
            b"bytes" => case.bytes = text(scanner),
            b"inner" => {
                assert!(scanner.eat(b'['));
                while scanner.more(b']', case.inner.is_empty()).unwrap() {
                    case.inner.push(number(scanner) as i64);
                }
            }
            other => panic!("{other:?}"),
        }
    }
    case
}

fn cases() -> Vec<Case> {
    let (mut scanner, mut found, mut first) = (Scanner::new(LAYOUT), Vec::new(), true);
    assert!(scanner.eat(b'{'));
    while scanner.more(b'}', first).unwrap() {
        first = false;
        match scanner.key(&mut Vec::new()).unwrap() {
            b"cases" => {
                assert!(scanner.eat(b'['));
                while scanner.more(b']', found.is_empty()).unwrap() {
                    found.push(case(&mut scanner));
                }
            }
            b"format" => assert_eq!(text(&mut scanner), "tidegate.tensors/1"),
            _ => scanner.skip().unwrap(),
        }
    }
    found
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn columns_have_the_golden_layout() {
    let cases = cases();
    let mut seen: Vec<DType> = Vec::new();
    for case in &cases {
        let dtype = DType::from_name(&case.dtype).unwrap();
        // There is no JSON for halves and complex numbers: the one is sent as a float, the other as two.
        let (sent, parts) = match dtype {
            DType::Float16 => (DType::Float32, None),
            DType::Complex64 => (DType::Float32, Some(2)),
            DType::Complex128 => (DType::Float64, Some(2)),
            dtype => (dtype, None),
        };
        let shape: Vec<i64> = std::iter::once(-1).chain(case.inner.iter().copied()).chain(parts).collect();
        let signature = signature(vec![spec("x", sent, &shape)], vec![spec("y", sent, &shape)]);
        let mut columns = ColumnPool::new(vec![sent]).lease();
        let request = JsonRequest::parse(case.request.as_bytes()).unwrap();
        let intake = request
            .read_inputs(&signature, &mut Page { columns: &mut columns, shapes: &mut Vec::new(), room: &mut () })
            .unwrap();
        assert_eq!(intake.rows as u64, case.rows);
        match &*columns[0] {
            Column::Raw(words) if dtype == DType::Float16 => {
                let singles = words.as_bytes().chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()));
                let halves: Vec<u8> = singles.flat_map(|single| f16::from_f32(single).to_le_bytes()).collect();
                assert_eq!(hex(&halves), case.bytes, "{}", case.dtype);
            }
            Column::Raw(words) => assert_eq!(hex(words.as_bytes()), case.bytes, "{}", case.dtype),
            Column::Strings(strings) => {
                let offsets: Vec<u8> = strings.offsets().iter().flat_map(|offset| offset.to_le_bytes()).collect();
                assert_eq!((hex(&offsets), hex(strings.bytes())), (case.offsets.clone(), case.bytes.clone()));
            }
        }
        seen.push(dtype);
    }
    assert!(ALL.iter().all(|dtype| seen.contains(dtype)), "every dtype has a case: {seen:?}");
}

/// Field name to number of a message type, from the descriptor set.
fn fields_of(package: &str, message: &str) -> Vec<(String, u32)> {
    let name = |descriptor: &[u8]| String::from_utf8(bytes_of(descriptor, 1).concat()).unwrap();
    for file in bytes_of(DESCRIPTORS, 1) {
        if bytes_of(file, 2).concat() != package.as_bytes() {
            continue;
        }
        for descriptor in bytes_of(file, 4) {
            if name(descriptor) == message {
                let fields = bytes_of(descriptor, 2).into_iter();
                return fields.map(|field| (name(field), varint_of(field, 3) as u32)).collect();
            }
        }
    }
    panic!("{package}.{message} is not in the descriptor set");
}

fn check(package: &str, message: &str, ours: &[(&str, u32)]) {
    let fields = fields_of(package, message);
    for (name, number) in ours {
        let found = fields.iter().find(|(field, _)| field == name).unwrap_or_else(|| panic!("{message}.{name}"));
        assert_eq!(found.1, *number, "{message}.{name}");
    }
}

#[test]
fn the_field_numbers_of_examples_and_inferences_are_those_of_the_descriptor_set() {
    let tensorflow = "tensorflow";
    check(tensorflow, "Example", &[("features", 1)]);
    check(tensorflow, "Features", &[("feature", 1)]);
    check(tensorflow, "Feature", &[("bytes_list", 1), ("float_list", 2), ("int64_list", 3)]);
    ["BytesList", "FloatList", "Int64List"].iter().for_each(|list| check(tensorflow, list, &[("value", 1)]));
    check(tensorflow, "NamedTensorProto", &[("name", 1), ("tensor", 2)]);
    let serving = "tensorflow.serving";
    check(serving, "Input", &[("example_list", 1), ("example_list_with_context", 2)]);
    check(serving, "ExampleList", &[("examples", 1)]);
    check(serving, "ExampleListWithContext", &[("examples", 1), ("context", 2)]);
    check(serving, "Class", &[("label", 1), ("score", 2)]);
    check(serving, "Classifications", &[("classes", 1)]);
    check(serving, "ClassificationResult", &[("classifications", 1)]);
    check(serving, "Regression", &[("value", 1)]);
    check(serving, "RegressionResult", &[("regressions", 1)]);
    for kind in ["Classification", "Regression"] {
        check(serving, &format!("{kind}Request"), &[("model_spec", 1), ("input", 2)]);
        check(serving, &format!("{kind}Response"), &[("result", 1), ("model_spec", 2)]);
    }
    check(serving, "InferenceTask", &[("model_spec", 1), ("method_name", 2)]);
    check(serving, "MultiInferenceRequest", &[("tasks", 1), ("input", 2)]);
    let results = [("model_spec", 1), ("classification_result", 2), ("regression_result", 3)];
    check(serving, "InferenceResult", &results);
    check(serving, "MultiInferenceResponse", &[("results", 1)]);
    check(serving, "SessionRunRequest", &[("model_spec", 1), ("feed", 2), ("fetch", 3), ("target", 4)]);
    check(serving, "SessionRunResponse", &[("tensor", 1), ("model_spec", 3)]);
}

#[test]
fn our_field_numbers_are_those_of_the_descriptor_set() {
    let field = tensor::value_field;
    check(
        "tensorflow",
        "TensorProto",
        &[
            ("dtype", tensor::field::DTYPE),
            ("tensor_shape", tensor::field::TENSOR_SHAPE),
            ("tensor_content", tensor::field::TENSOR_CONTENT),
            ("float_val", field(DType::Float32)),
            ("double_val", field(DType::Float64)),
            ("int_val", field(DType::Int8)),
            ("string_val", field(DType::String)),
            ("int64_val", field(DType::Int64)),
            ("bool_val", field(DType::Bool)),
            ("half_val", field(DType::Float16)),
            ("uint32_val", field(DType::UInt32)),
            ("uint64_val", field(DType::UInt64)),
            ("scomplex_val", field(DType::Complex64)),
            ("dcomplex_val", field(DType::Complex128)),
        ],
    );
    check("tensorflow", "TensorShapeProto", &[("dim", 2), ("unknown_rank", 3)]);
    check("tensorflow", "TensorInfo", &[("name", 1), ("dtype", 2), ("tensor_shape", 3)]);
    check("tensorflow", "SignatureDef", &[("inputs", 1), ("outputs", 2), ("method_name", 3)]);
    let serving = "tensorflow.serving";
    check(serving, "ModelSpec", &[("name", 1), ("version", 2), ("signature_name", 3), ("version_label", 4)]);
    check(serving, "PredictRequest", &[("model_spec", 1), ("inputs", 2), ("output_filter", 3)]);
    check(serving, "PredictResponse", &[("outputs", 1), ("model_spec", 2)]);
    check(serving, "GetModelMetadataRequest", &[("model_spec", 1), ("metadata_field", 2)]);
    check(serving, "GetModelMetadataResponse", &[("model_spec", 1), ("metadata", 2)]);
    check(serving, "GetModelStatusRequest", &[("model_spec", 1)]);
    check(serving, "GetModelStatusResponse", &[("model_version_status", 1)]);
    check(serving, "ModelVersionStatus", &[("version", 1), ("state", 2), ("status", 3)]);
    check(serving, "StatusProto", &[("error_code", 1), ("error_message", 2)]);
}
