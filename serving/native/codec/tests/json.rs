//! REST bodies into columns and columns into REST bodies: forms, types, base64, odd numbers, and every refusal's text.
//! Speaks to parser and printer directly; the REST endpoint's tests send the same over sockets.

use crate::support::random::Random;
use crate::support::{floats, signature, spec};
use tidegate_codec::dtype::DType;
use tidegate_codec::json::plain_object::PlainObject;
use tidegate_codec::json::predict_request::{Form, JsonRequest};
use tidegate_codec::json::predict_response;
use tidegate_codec::signatures::Signature;
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::{Column, ColumnPool, Lease, Page, Room, Slice, Strings, Words};

pub(crate) fn one(dtype: DType, shape: &[i64]) -> Signature {
    signature(vec![spec("x", dtype, shape)], vec![spec("y", DType::Float32, &[-1])])
}

fn table() -> Signature {
    let inputs = vec![
        spec("age", DType::Float32, &[-1]),
        spec("city", DType::String, &[-1]),
        spec("count", DType::Int64, &[-1]),
    ];
    signature(inputs, vec![spec("y", DType::Float32, &[-1])])
}

pub(crate) fn read(signature: &Signature, body: &str) -> Result<(usize, Vec<Lease>), Status> {
    let mut columns = ColumnPool::new(signature.inputs.iter().map(|spec| spec.dtype).collect()).lease();
    let request = JsonRequest::parse(body.as_bytes())?;
    let intake =
        request.read_inputs(signature, &mut Page { columns: &mut columns, shapes: &mut Vec::new(), room: &mut () })?;
    Ok((intake.rows, columns))
}

pub(crate) fn raw(signature: &Signature, body: &str) -> Vec<u8> {
    match &*read(signature, body).unwrap().1[0] {
        Column::Raw(words) => words.as_bytes().to_vec(),
        Column::Strings(_) => panic!("strings"),
    }
}

fn strings(column: &Column) -> Vec<String> {
    match column {
        Column::Strings(strings) => {
            (0..strings.len()).map(|index| String::from_utf8_lossy(strings.get(index)).into_owned()).collect()
        }
        Column::Raw(_) => panic!("raw"),
    }
}

pub(crate) fn refused(signature: &Signature, body: &str) -> String {
    read(signature, body).map(|(rows, _)| format!("read {rows} rows")).unwrap_err().message
}

#[test]
fn marks_of_windows_before_a_text() {
    let body = r#"{"instances":[1,2]}"#;
    let marked = format!("\u{feff}{body}");
    let (rows, columns) = read(&one(DType::Float32, &[-1]), &marked).unwrap();
    assert_eq!((rows, floats(&columns[0])), (2, vec![1.0, 2.0]));
    assert!(PlainObject::parse(marked.as_bytes()).is_ok());
    for text in [body, marked.as_str()] {
        for bytes_of in [u16::to_le_bytes, u16::to_be_bytes] {
            let sent: Vec<u8> = text.encode_utf16().flat_map(bytes_of).collect();
            let refused = [JsonRequest::parse(&sent).unwrap_err(), PlainObject::parse(&sent).unwrap_err()];
            for why in refused {
                assert_eq!(why.message, "JSON Parse error: the body is UTF-16: send it as UTF-8");
            }
        }
    }
}

#[test]
fn plain_rows_for_a_single_input() {
    let (rows, columns) = read(&one(DType::Float32, &[-1, 2]), r#" {"instances": [[1, 2.5], [-3e2,4]] } "#).unwrap();
    assert_eq!((rows, floats(&columns[0])), (2, vec![1.0, 2.5, -300.0, 4.0]));
    let (rows, columns) = read(&one(DType::Float32, &[-1]), r#"{"instances":[1,2,3]}"#).unwrap();
    assert_eq!((rows, floats(&columns[0])), (3, vec![1.0, 2.0, 3.0]));
    let (_, columns) = read(&one(DType::Float32, &[-1]), r#"{"instances":[{"x":1},{"x":2}]}"#).unwrap();
    assert_eq!(floats(&columns[0]), [1.0, 2.0]);
}

#[test]
fn named_columns_in_any_order_by_row_and_by_column() {
    let body = r#"{"signature_name":"serving_default","instances":[
        {"age":30,"city":"\u00e9t\u00e9 \"x\"","count":-5},{"count":7,"age":2.5,"city":{"b64":"/wA="}}]}"#;
    let (rows, columns) = read(&table(), body).unwrap();
    assert_eq!((rows, floats(&columns[0])), (2, vec![30.0, 2.5]));
    assert_eq!(strings(&columns[1]), ["été \"x\"", "\u{fffd}\0"]);
    let body = r#"{"inputs":{"city":["a","b"],"age":[1,2],"count":[3,4]}}"#;
    let (rows, columns) = read(&table(), body).unwrap();
    assert_eq!((rows, floats(&columns[0]), strings(&columns[1])), (2, vec![1.0, 2.0], vec!["a".into(), "b".into()]));
}

#[test]
fn the_signature_may_stand_behind_the_values() {
    let request = JsonRequest::parse(br#"{"instances":[1],"signature_name":"other"}"#).unwrap();
    assert_eq!((request.signature_name.as_str(), request.form), ("other", Form::Row));
}

#[test]
fn each_type_takes_its_numbers() {
    let bytes = |dtype, body: &str| raw(&one(dtype, &[-1]), &format!("{{\"instances\":[{body}]}}"));
    assert_eq!(bytes(DType::Int8, "-128,127"), [0x80, 0x7f]);
    assert_eq!(bytes(DType::UInt8, "0,255"), [0, 255]);
    assert_eq!(bytes(DType::Int16, "-2"), (-2i16).to_le_bytes());
    assert_eq!(bytes(DType::UInt16, "65535"), u16::MAX.to_le_bytes());
    assert_eq!(bytes(DType::Int32, "-2147483648"), i32::MIN.to_le_bytes());
    assert_eq!(bytes(DType::UInt32, "4294967295"), u32::MAX.to_le_bytes());
    assert_eq!(bytes(DType::Int64, "-9223372036854775808"), i64::MIN.to_le_bytes());
    assert_eq!(bytes(DType::UInt64, "18446744073709551615"), u64::MAX.to_le_bytes());
    assert_eq!(bytes(DType::Bool, "true,false"), [1, 0]);
    assert_eq!(bytes(DType::Float32, "1e39,-1e39"), [f32::INFINITY, f32::NEG_INFINITY].map(f32::to_le_bytes).concat());
    assert_eq!(bytes(DType::Float32, &format!("{}", u64::MAX)), (u64::MAX as f32).to_le_bytes());
    assert_eq!(bytes(DType::Float64, "0.1"), 0.1f64.to_le_bytes());
    assert_eq!(bytes(DType::Float32, "16777217"), 16_777_216f32.to_le_bytes());
    assert_eq!(bytes(DType::Float64, "-9007199254740993"), (-9_007_199_254_740_992f64).to_le_bytes());
    let odd = bytes(DType::Float32, "NaN,Infinity,-Infinity");
    assert!(f32::from_le_bytes(odd[..4].try_into().unwrap()).is_nan());
    assert_eq!(odd[4..], [f32::INFINITY.to_le_bytes(), f32::NEG_INFINITY.to_le_bytes()].concat());
}

#[test]
fn a_number_that_does_not_fit_its_type_is_refused() {
    let of = |dtype, body: &str| refused(&one(dtype, &[-1]), &format!("{{\"instances\":[{body}]}}"));
    let place = "Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: ";
    let wrong = |value: &str, kind: &str, dtype: &str| {
        format!("{place}JSON Value: {value} Type: {kind} is not of expected type: {dtype}")
    };
    assert_eq!(of(DType::Int32, "1.5"), wrong("1.5", "Number", "int32"));
    assert_eq!(of(DType::Float32, "\"a\""), wrong("\"a\"", "String", "float"));
    let missing = "float; send NaN for a number that is missing";
    assert_eq!(of(DType::Float32, "null"), wrong("null", "Null", missing));
    let no_value = "int32; null stands for no value of this type: send one";
    assert_eq!(of(DType::Int32, "null"), wrong("null", "Null", no_value));
    assert_eq!(of(DType::Bool, "1"), wrong("1", "Number", "bool"));
    assert_eq!(of(DType::String, "1"), wrong("1", "Number", "string"));
    let lossy = |value: &str, dtype: &str| {
        format!("{place}Cannot convert JSON value: {value} to {dtype} without loss of precision.")
    };
    assert_eq!(of(DType::Int8, "128"), lossy("128", "int8"));
    assert_eq!(of(DType::UInt64, "-1"), wrong("-1", "Number", "uint64"));
    assert_eq!(of(DType::Int32, "2147483648"), wrong("2147483648", "Number", "int32"));
}

#[test]
fn what_is_printed_is_read_again() {
    for value in [f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45, 0.1, 16_777_217.0, f32::INFINITY] {
        let text = printed(&[("y", slice(DType::Float32, &raw_column(&value.to_le_bytes()), &[], 1))], Form::Columnar);
        let body = text.replace("outputs", "instances");
        assert_eq!(raw(&one(DType::Float32, &[-1]), &body), value.to_le_bytes(), "{text}");
    }
}

#[test]
fn plain_objects_have_halves() {
    let signature = one(DType::Float16, &[-1, 4]);
    let body = br#"{"x":[0.1, -2, 1e9, NaN]}"#;
    let mut columns = vec![Lease::unpooled(Column::new(DType::Float16))];
    let mut page = Page { columns: &mut columns, shapes: &mut Vec::new(), room: &mut () };
    PlainObject::parse(body).unwrap().read_inputs(&signature, &mut page).unwrap();
    let halves = [half::f16::from_f64(0.1), half::f16::from_f64(-2.0), half::f16::INFINITY, half::f16::NAN];
    let answer = [("x", slice(DType::Float16, &columns[0], &[4], 1))];
    assert_eq!(answer[0].1.raw(), halves.map(half::f16::to_le_bytes).concat());
    let text = predict_response::encode_plain(&answer).unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), r#"{"x":[0.099975586,-2.0,Infinity,NaN]}"#);
}

#[test]
fn halves_and_complex_numbers_have_no_json_as_in_tensorflow_serving() {
    let half = one(DType::Float16, &[-1]);
    let place = "Failed to process element: 0 of 'instances' list. Error: UNIMPLEMENTED: ";
    let said = refused(&half, r#"{"instances":[1.5]}"#);
    assert_eq!(said, format!("{place}Conversion of JSON Value: 1.5 to type: half"));
    let in_columns = read(&half, r#"{"inputs":[1.5]}"#).unwrap_err();
    assert_eq!((in_columns.code, &*in_columns.message), (Code::Unimplemented, &said[place.len()..]));
    let column = raw_column(&[0, 0x3c]);
    let answer = predict_response::encode(&[("y", slice(DType::Float16, &column, &[], 1))], Form::Row).unwrap_err();
    assert_eq!(answer, Status::invalid("Failed to write JSON value for tensor type: half"));
    for (dtype, name) in [(DType::Complex64, "complex64"), (DType::Complex128, "complex128")] {
        let said = refused(&one(dtype, &[-1]), r#"{"instances":[1.5]}"#);
        assert_eq!(said, format!("{place}Conversion of JSON Value: 1.5 to type: {name}"));
        let column = raw_column(&vec![0; dtype.size()]);
        let answer = predict_response::encode(&[("y", slice(dtype, &column, &[], 1))], Form::Row).unwrap_err();
        assert_eq!(answer, Status::invalid(format!("Failed to write JSON value for tensor type: {name}")));
    }
}

#[test]
fn the_texts_of_tensorflow_serving_for_a_wrong_form() {
    let x = one(DType::Float32, &[-1]);
    assert_eq!(refused(&x, ""), "JSON Parse error: The document is empty");
    assert_eq!(refused(&x, "[1]"), "JSON Value: [1] Is not object");
    assert_eq!(refused(&x, "{}"), "Missing 'inputs' or 'instances' key");
    assert_eq!(refused(&x, r#"{"instances":[]}"#), "JSON Value: {\"instances\":[]} No values in 'instances' array");
    let list = "JSON Value: {\"instances\":5} Expecting 'instances' to be an list/array";
    assert_eq!(refused(&x, r#"{"instances":5}"#), list);
    let both = refused(&x, r#"{"instances":[1],"inputs":[1]}"#);
    assert!(both.contains("Not formatted correctly expecting only one of 'inputs' or 'instances' keys"), "{both}");
    let signature = refused(&x, r#"{"signature_name":100,"instances":[1]}"#);
    assert!(signature.ends_with("'signature_name' key must be a string value."), "{signature}");
    let plain = refused(&table(), r#"{"instances":[1]}"#);
    assert!(plain.starts_with("instances is a plain list, but expecting list of objects"), "{plain}");
    assert_eq!(
        refused(&table(), r#"{"instances":[{"age":1,"count":2}]}"#),
        "Failed to process element: 0 of 'instances' list. JSON object: {\"age\":1,\"count\":2} keys must be equal to: \
         age,city,count"
    );
    let twice = refused(&table(), r#"{"instances":[{"age":1,"age":2,"count":2}]}"#);
    assert!(twice.ends_with("keys must be equal to: age,city,count"), "{twice}");
    let unknown = refused(&table(), r#"{"instances":[{"nope":1}]}"#);
    assert!(unknown.ends_with("JSON object: does not have named input: nope"), "{unknown}");
    assert_eq!(refused(&x, r#"{"instances":[{"x":1},2]}"#), "Expecting object but got list at item 1 of input list");
    assert_eq!(
        refused(&x, r#"{"instances":[1,{"x":2}]}"#),
        "Expecting value/list but got object at item 1 of input list"
    );
    let missing = refused(&table(), r#"{"inputs":{"age":[1],"count":[1]}}"#);
    assert_eq!(missing, "Missing named input: city in 'inputs' object.");
    let uneven = refused(&table(), r#"{"inputs":{"age":[1],"count":[1,2],"city":["a"]}}"#);
    assert!(uneven.ends_with("input 'age' has 1 rows, input 'count' has 2"), "{uneven}");
}

#[test]
fn a_wrong_nesting_says_where() {
    let pair = one(DType::Float32, &[-1, 2]);
    let of = |body| refused(&pair, body);
    assert!(
        of(r#"{"instances":[[1]]}"#).ends_with("Encountered list at unexpected size: 1 at level: 0 expected size: 2")
    );
    assert!(of(r#"{"instances":[[1,2,3]]}"#).ends_with("unexpected size: 3 at level: 0 expected size: 2"));
    assert!(
        of(r#"{"instances":[1]}"#)
            .contains("JSON Value: 1 found at incorrect level: 1 in the JSON DOM. Expected at level: 1")
    );
    assert!(of(r#"{"instances":[[[1,2]]]}"#).contains("Encountered list at unexpected level: 1 expected < 1"));
}

#[test]
fn rows_that_differ_are_refused_in_tensorflow_servings_words() {
    let ragged = one(DType::Float32, &[-1, -1]);
    let row = "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: ";
    assert_eq!(refused(&ragged, r#"{"instances":[[1,2],[1]]}"#), format!("{row}Expecting tensor size: 2 but got: 1"));
    let deep = one(DType::Float32, &[-1, -1, -1]);
    assert_eq!(
        refused(&deep, r#"{"instances":[[[1,2],[3,4],[5,6]],[[1,2,3],[4,5,6]]]}"#),
        format!("{row}Expecting shape [3,2] but got: [2,3]")
    );
    let text = |level: usize| format!("Encountered list at unexpected size: 1 at level: {level} expected size: 2");
    assert_eq!(refused(&deep, r#"{"instances":[[[1,2]],[[1,2],[3]]]}"#), format!("{row}{}", text(1)));
    assert_eq!(refused(&ragged, r#"{"inputs":[[1,2],[1]]}"#), text(1));
    assert_eq!(
        refused(&ragged, r#"{"inputs":[[1,2],3]}"#),
        "JSON Value: 3 found at incorrect level: 2 in the JSON DOM. Expected at level: 2"
    );
    assert_eq!(
        refused(&ragged, r#"{"inputs":[[1,2],[3,"a"]]}"#),
        "JSON Value: \"a\" Type: String is not of expected type: float"
    );
}

/// Gives so many bytes and no more.
struct Bounded(usize);

impl Room for Bounded {
    fn take(&mut self, bytes: usize) -> Result<(), Status> {
        self.0 = self.0.checked_sub(bytes).ok_or_else(|| Status::exhausted("no more"))?;
        Ok(())
    }
}

#[test]
fn memory_is_taken_as_columns_grow_in_one_row_and_over_many() {
    let doubles = one(DType::Float64, &[-1, -1]);
    let ones = "1,".repeat(99_999) + "1";
    let pairs = "1,1,\n".repeat(49_999) + "1,1";
    let rows = "[1,1],".repeat(49_999) + "[1,1]";
    let row = |row: &str| format!("{{\"instances\":[[{row}]]}}");
    for body in [row(&ones), row(&pairs), format!("{{\"inputs\":[{rows}]}}")] {
        let read = |room: usize| {
            let mut columns = ColumnPool::new(vec![DType::Float64]).lease();
            let page = &mut Page { columns: &mut columns, shapes: &mut Vec::new(), room: &mut Bounded(room) };
            let read = JsonRequest::parse(body.as_bytes()).unwrap().read_inputs(&doubles, page);
            (read.map(|request| request.rows).map_err(|why| why.message), columns[0].byte_size())
        };
        let (refused, bytes) = read(100_000);
        assert_eq!(refused, Err("no more".to_owned()));
        assert!(bytes < 100_000 + (40 << 10), "{bytes}");
        assert_eq!(read(800_000).1, 800_000);
    }
}

#[test]
fn long_names_are_refused_and_long_strings_are_not() {
    let x = one(DType::String, &[-1]);
    let long = "\\u0041".repeat(70_000);
    assert_eq!(strings(&read(&x, &format!("{{\"instances\":[\"{long}\"]}}")).unwrap().1[0]), ["A".repeat(70_000)]);
    for name in [long, "A".repeat(70_000)] {
        for body in [format!("{{\"signature_name\":\"{name}\"}}"), format!("{{\"instances\":[{{\"{name}\":1}}]}}")] {
            let refused = refused(&x, &body);
            assert!(refused.contains("is a name of more than 65536 bytes") && refused.len() < 300, "{refused}");
        }
    }
}

#[test]
fn inputs_that_the_signature_does_not_have_are_passed_over_in_columns() {
    let (rows, columns) = read(&table(), r#"{"inputs":{"more":[[1]],"age":[1],"count":[2],"city":["a"]}}"#).unwrap();
    assert_eq!((rows, floats(&columns[0])), (1, vec![1.0]));
    let many = r#"{"inputs":{"more":1,"even more":2,"and more":3,"x":[1,2],"b":4}}"#;
    assert_eq!(read(&one(DType::Float32, &[-1]), many).unwrap().0, 2, "also more of them than there are inputs");
}

#[test]
fn malformed_json_gives_the_offset() {
    let x = one(DType::Float32, &[-1]);
    let at = |body| refused(&x, body);
    assert_eq!(at(r#"{"instances":[1,}"#), "JSON Parse error: Invalid value. at offset: 16");
    assert_eq!(
        at(r#"{"instances":[1 2]}"#),
        "JSON Parse error: Missing a comma or ] after an array element. at offset: 16"
    );
    assert_eq!(at(r#"{"instances":[01]}"#), "JSON Parse error: Invalid value. at offset: 14");
    assert_eq!(at(r#"{"instances":[1.]}"#), "JSON Parse error: Miss fraction part in number. at offset: 14");
    assert_eq!(
        at(r#"{"instances" [1]}"#),
        "JSON Parse error: Missing a colon after a name of object member. at offset: 13"
    );
    assert_eq!(at(r#"{instances:[1]}"#), "JSON Parse error: Missing a name for object member. at offset: 1");
    assert_eq!(
        at(r#"{"instances":[1]"#),
        "JSON Parse error: Missing a comma or } after an object member. at offset: 16"
    );
    assert_eq!(
        at(r#"{"instances":["a]}"#),
        "JSON Parse error: Missing a closing quotation mark in string. at offset: 18"
    );
    assert_eq!(at(r#"{"instances":[1],}"#), "JSON Parse error: Missing a name for object member. at offset: 17");
    assert_eq!(at(" "), "JSON Parse error: The document is empty. at offset: 1");
    assert_eq!(
        at(r#"{"instances":["a", 1"#),
        "JSON Parse error: Missing a comma or ] after an array element. at offset: 20",
        "before anything is said of what is in it"
    );
    assert_eq!(
        at(r#"{"signature_name":3,"instances":[1]"#),
        "JSON Parse error: Missing a comma or } after an object member. at offset: 35"
    );
    let text = one(DType::String, &[-1]);
    assert!(refused(&text, "{\"instances\":[\"\\ud800\"]}").contains("surrogate pair"));
    assert!(refused(&text, "{\"instances\":[\"\\ud83d\\ud83d\"]}").contains("surrogate pair"));
    assert_eq!(
        refused(&text, "{\"instances\":[\"\\x\"]}"),
        "JSON Parse error: Invalid escape character in string. at offset: 15"
    );
    for tail in ["{}", " x", "\0", "]"] {
        let what = refused(&x, &format!(r#"{{"instances":[1]}}{tail}"#));
        assert!(what.contains("must not be followed by other values"), "{tail:?}: {what}");
    }
    for huge in ["1e400", "-1e999", &"9".repeat(400)] {
        let what = refused(&x, &format!(r#"{{"instances":[{huge}]}}"#));
        assert!(what.contains("Number too big to be stored in double"), "{huge}: {what}");
    }
    let deep = format!("{{\"other\":{}", "[".repeat(100_000));
    assert!(refused(&x, &deep).contains("Nested too deeply"));
}

/// RapidJSON's complaint about the end of a text, by what was read before it: its iterative parser's states.
fn complaint_at_the_end(text: &str) -> &'static str {
    let (mut open, mut last, mut quoted) = (Vec::new(), ' ', false);
    let mut is_key = false;
    for byte in text.chars() {
        match byte {
            '"' => quoted = !quoted,
            _ if quoted => continue,
            '{' | '[' => open.push(byte),
            '}' | ']' => drop(open.pop()),
            _ => {}
        }
        is_key = match byte {
            '"' if !quoted => matches!(last, '{' | ',') && open.last() == Some(&'{'),
            _ => false,
        };
        if !(byte == '"' && quoted) {
            last = byte;
        }
    }
    match (quoted, last, open.last()) {
        (true, ..) => "Missing a closing quotation mark in string.",
        (_, '{', _) | (_, ',', Some('{')) => "Missing a name for object member.",
        (_, '[' | ',' | ':', _) => "Invalid value.",
        _ if is_key => "Missing a colon after a name of object member.",
        (_, _, Some('{')) => "Missing a comma or } after an object member.",
        _ => "Missing a comma or ] after an array element.",
    }
}

#[test]
fn a_body_that_ends_too_early_is_refused_in_rapidjsons_words_at_its_end() {
    let nested = one(DType::Float32, &[-1, -1]);
    for body in [
        r#"{"signature_name":"a","instances":[[1,2],[3,4]],"more":{"a":[{"b":1}]}}"#,
        r#"{"inputs":{"x":[[1,2],[3,4]]},"more":[[]]}"#,
        r#"{"inputs":[[1,2],[3,"a"]],"more":[[]]}"#,
    ] {
        for end in 1..body.len() {
            let text = format!("JSON Parse error: {} at offset: {end}", complaint_at_the_end(&body[..end]));
            assert_eq!(refused(&nested, &body[..end]), text, "{}", &body[..end]);
        }
    }
}

#[test]
fn damaged_bodies_are_refused_or_read_but_never_panic() {
    let body = r#"{"signature_name":"serving_default","instances":[{"age":-1.5e3,"city":"\u00e9\n","count":12},
        {"count":7,"age":2,"city":{"b64":"QUJD"}}],"x":[[],{},null,true,"a"]}"#;
    assert_eq!(read(&table(), body).unwrap().0, 2);
    let (mut random, mut refused) = (Random(13), 0);
    for _ in 0..50_000 {
        let damaged = random.damage(body.as_bytes());
        let mut columns = ColumnPool::new(table().inputs.iter().map(|spec| spec.dtype).collect()).lease();
        let parsed = JsonRequest::parse(&damaged);
        let read = parsed.and_then(|request| {
            request.read_inputs(&table(), &mut Page { columns: &mut columns, shapes: &mut Vec::new(), room: &mut () })
        });
        match read {
            Ok(intake) => assert!(columns.iter().all(|column| column.extent() > 0) && intake.rows > 0),
            Err(status) => {
                assert!(!status.message.is_empty());
                refused += 1;
            }
        }
    }
    assert!(refused > 10_000, "{refused}");
}

fn raw_column(bytes: &[u8]) -> Column {
    let mut words = Words::default();
    words.push(bytes);
    Column::Raw(words)
}

fn slice<'a>(dtype: DType, column: &'a Column, inner: &'a [usize], rows: usize) -> Slice<'a> {
    Slice { dtype, column, inner, first: 0, rows, unbatched: false }
}

fn printed(outputs: &[(&str, Slice<'_>)], form: Form) -> String {
    String::from_utf8(predict_response::encode(outputs, form).unwrap()).unwrap()
}

#[test]
fn answers_have_the_form_of_the_request() {
    let floats: Vec<u8> =
        [1.0f32, 0.1, f32::NAN, f32::NEG_INFINITY].iter().flat_map(|value| value.to_le_bytes()).collect();
    let (floats, whole) = (raw_column(&floats), raw_column(&[1, 0]));
    let (y, ok) = (slice(DType::Float32, &floats, &[2], 2), slice(DType::Bool, &whole, &[], 2));
    assert_eq!(printed(&[("y", y)], Form::Row), r#"{"predictions":[[1.0,0.1],[NaN,-Infinity]]}"#);
    assert_eq!(printed(&[("y", y)], Form::Columnar), r#"{"outputs":[[1.0,0.1],[NaN,-Infinity]]}"#);
    assert_eq!(
        printed(&[("y", y), ("ok", ok)], Form::Row),
        r#"{"predictions":[{"y":[1.0,0.1],"ok":true},{"y":[NaN,-Infinity],"ok":false}]}"#
    );
    assert_eq!(
        printed(&[("y", y), ("ok", ok)], Form::Columnar),
        r#"{"outputs":{"y":[[1.0,0.1],[NaN,-Infinity]],"ok":[true,false]}}"#
    );
    let second = Slice { first: 1, rows: 1, ..y };
    assert_eq!(printed(&[("y", second)], Form::Row), r#"{"predictions":[[NaN,-Infinity]]}"#);
}

#[test]
fn every_type_is_printed() {
    let print = |dtype, bytes: &[u8]| printed(&[("y", slice(dtype, &raw_column(bytes), &[], 1))], Form::Row);
    assert_eq!(print(DType::Int8, &[0x80]), r#"{"predictions":[-128]}"#);
    assert_eq!(print(DType::UInt16, &u16::MAX.to_le_bytes()), r#"{"predictions":[65535]}"#);
    assert_eq!(print(DType::Int64, &i64::MIN.to_le_bytes()), r#"{"predictions":[-9223372036854775808]}"#);
    assert_eq!(print(DType::UInt64, &u64::MAX.to_le_bytes()), r#"{"predictions":[18446744073709551615]}"#);
    assert_eq!(print(DType::Float64, &9e6f64.to_le_bytes()), r#"{"predictions":[9000000.0]}"#);
}

#[test]
fn strings_are_escaped_and_bytes_become_base64() {
    let mut strings = Strings::default();
    strings.push("é\"\n\u{1}".as_bytes());
    strings.push(b"\xff\0");
    let column = Column::Strings(strings);
    let text = slice(DType::String, &column, &[], 2);
    assert_eq!(printed(&[("s", text)], Form::Row), r#"{"predictions":["é\"\n\u0001",{"b64":"/wA="}]}"#);
    let first = Slice { rows: 1, ..text };
    assert_eq!(printed(&[("s_bytes", first)], Form::Row), r#"{"predictions":[{"b64":"w6kiCgE="}]}"#);
}
