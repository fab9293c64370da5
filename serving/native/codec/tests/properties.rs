//! Properties of all decoders: what was written is read again, and no bytes whatsoever make one panic.

use crate::support::messages::{Request, bytes_of, content, tensor as tensor_message};
use crate::support::{signature, spec};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_codec::dtype::{ALL, DType};
use tidegate_codec::inference::InferenceMethod;
use tidegate_codec::json::predict_request::{Form, JsonRequest};
use tidegate_codec::json::{self, predict_response};
use tidegate_codec::model_spec::{ModelSpec, VersionChoice};
use tidegate_codec::protobuf::multi_inference::MultiInferenceRequest;
use tidegate_codec::protobuf::predict::{PredictRequest, encode_response, select_outputs};
use tidegate_codec::protobuf::session_run::{self, SessionRunRequest};
use tidegate_codec::protobuf::tensor::Numbers;
use tidegate_codec::protobuf::wire::Reader;
use tidegate_codec::protobuf::{examples, metadata, model_status, tensor, wire};
use tidegate_codec::signatures::{FirstAxis, RequestRows, Signature};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, ColumnPool, Lease, Lender, Page, Slice, Strings, Words};

const LIMIT: usize = 1 << 20;

/// Rows of one tensor.
#[derive(Clone, Debug)]
struct Rows {
    dtype: DType,
    inner: Vec<usize>,
    rows: usize,
    column: Column,
}

impl Rows {
    fn slice(&self) -> Slice<'_> {
        let (dtype, column, inner) = (self.dtype, &self.column, &self.inner[..]);
        Slice { dtype, column, inner, first: 0, rows: self.rows, unbatched: false }
    }

    /// A signature with one input of this kind; its inner dimensions are open where `open`.
    fn signature(&self, open: bool) -> Signature {
        let dim = |size: &usize| if open { -1 } else { *size as i64 };
        let shape: Vec<i64> = std::iter::once(-1).chain(self.inner.iter().map(dim)).collect();
        signature(vec![spec("x", self.dtype, &shape)], vec![spec("y", DType::Float32, &[-1])])
    }
}

/// The bytes of a column, or each of its strings.
fn content_of(column: &Column) -> Vec<Vec<u8>> {
    match column {
        Column::Raw(words) => vec![words.as_bytes().to_vec()],
        Column::Strings(strings) => (0..strings.len()).map(|index| strings.get(index).to_vec()).collect(),
    }
}

fn column(dtype: DType, elements: usize) -> BoxedStrategy<Column> {
    match dtype {
        DType::String => vec(vec(any::<u8>(), 0..12), elements)
            .prop_map(|values| {
                let mut strings = Strings::default();
                values.iter().for_each(|value| strings.push(value));
                Column::Strings(strings)
            })
            .boxed(),
        _ => vec(any::<u8>(), elements * dtype.size())
            .prop_map(move |mut bytes| {
                if dtype == DType::Bool {
                    bytes.iter_mut().for_each(|byte| *byte &= 1);
                }
                let mut words = Words::default();
                words.push(&bytes);
                Column::Raw(words)
            })
            .boxed(),
    }
}

fn rows() -> impl Strategy<Value = Rows> {
    (select(&ALL[..]), vec(1usize..4, 0..3), 1usize..6).prop_flat_map(|(dtype, inner, rows)| {
        column(dtype, rows * inner.iter().product::<usize>()).prop_map(move |column| Rows {
            dtype,
            inner: inner.clone(),
            rows,
            column,
        })
    })
}

/// Lets a decoder fill the columns of a signature.
fn decode(
    signature: &Signature,
    read: impl FnOnce(&mut Page<'_>) -> Result<RequestRows, Status>,
) -> Result<(RequestRows, Vec<Lease>), Status> {
    let mut columns = ColumnPool::new(signature.inputs.iter().map(|spec| spec.dtype).collect()).lease();
    let rows = read(&mut Page { columns: &mut columns, shapes: &mut Vec::new(), room: &mut () })?;
    Ok((rows, columns))
}

/// NaNs have one text, so that they come back as one NaN.
fn with_one_nan(dtype: DType, bytes: &[u8]) -> Vec<u8> {
    let chunks = bytes.chunks_exact(dtype.size().max(1));
    let is_nan = |chunk: &[u8]| match dtype {
        DType::Float16 => half::f16::from_le_bytes(chunk.try_into().unwrap()).is_nan(),
        DType::Float32 => f32::from_le_bytes(chunk.try_into().unwrap()).is_nan(),
        DType::Float64 => f64::from_le_bytes(chunk.try_into().unwrap()).is_nan(),
        _ => false,
    };
    chunks.flat_map(|chunk| if is_nan(chunk) { vec![0xff; chunk.len()] } else { chunk.to_vec() }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_tensor_that_was_written_is_read_again(rows in rows(), open: bool, as_content: bool) {
        let numbers = if as_content { Numbers::AsContent } else { Numbers::InFields };
        let mut message = Vec::new();
        tensor::write(&mut message, &rows.slice(), numbers);
        prop_assert_eq!(tensor::length(&rows.slice(), numbers), message.len());
        let in_content = !bytes_of(&message, 4).is_empty();
        prop_assert_eq!(in_content, as_content && rows.dtype != DType::String);
        let signature = rows.signature(open);
        let mut read = Column::new(rows.dtype);
        let shape = tensor::read(&message, &signature, 0, &mut read, LIMIT, (&mut (), Lender::default())).unwrap();
        prop_assert_eq!((shape.rows, shape.inner), (rows.rows, rows.inner));
        prop_assert_eq!(content_of(&read), content_of(&rows.column));
    }

    #[test]
    fn an_answer_takes_no_more_memory_than_it_has_bytes(rows in rows(), name in ".{0,200}") {
        let spec = ModelSpec { name: &name, choice: VersionChoice::Version(7), signature_name: "serving_default" };
        let outputs = [("y", rows.slice()), (&*name, rows.slice())].into_iter();
        for answer in [encode_response(outputs.clone(), &spec, Numbers::AsContent), session_run::encode(outputs.clone(), &spec)] {
            let length = answer.len();
            prop_assert_eq!(answer.try_into_mut().unwrap().capacity(), length);
        }
    }

    #[test]
    fn a_predict_request_that_was_written_is_read_again(rows in rows(), open: bool, version: i64, name in ".{1,20}") {
        let shape: Vec<i64> = std::iter::once(&rows.rows).chain(&rows.inner).map(|dim| *dim as i64).collect();
        let sent = match &rows.column {
            Column::Raw(words) => tensor_message(rows.dtype.tensorflow(), &shape, &content(words.as_bytes())),
            Column::Strings(_) => {
                let mut message = Vec::new();
                tensor::write(&mut message, &rows.slice(), Numbers::InFields);
                message
            }
        };
        let message = Request::new(&name).version(version).input("x", sent).only("y").encode();
        let (signature, request) = (rows.signature(open), PredictRequest::parse(&message).unwrap());
        prop_assert_eq!((request.spec.name, request.spec.choice), (&*name, VersionChoice::Version(version)));
        prop_assert_eq!(select_outputs(&request.output_filter, &signature), Ok(Some([0].into())));
        let (found, columns) = decode(&signature, |page| request.read_inputs(&signature, page, LIMIT)).unwrap();
        prop_assert_eq!(found, RequestRows { rows: rows.rows, flat: false, unbatched: false });
        prop_assert_eq!(content_of(&columns[0]), content_of(&rows.column));
    }

    #[test]
    fn a_model_spec_that_was_written_is_read_again(name in ".{0,200}", version: i64, label in ".{0,9}", signature in ".{0,9}") {
        for choice in [VersionChoice::Any, VersionChoice::Version(version), VersionChoice::Label(&label)] {
            let mut message = Vec::new();
            ModelSpec { name: &name, choice, signature_name: &signature }.write(&mut message, 1);
            let field = Reader::new(&message).next_field().unwrap().unwrap();
            let read = ModelSpec::parse(field.bytes("").unwrap()).unwrap();
            prop_assert_eq!((read.name, read.choice, read.signature_name), (&*name, choice, &*signature));
        }
    }

    #[test]
    fn an_answer_in_json_is_read_again_as_a_request(rows in rows(), by_row: bool) {
        let (form, key, asked) = match by_row {
            true => (Form::Row, "predictions", "instances"),
            false => (Form::Columnar, "outputs", "inputs"),
        };
        prop_assume!(rows.dtype.has_json(), "which has no JSON");
        let body = predict_response::encode(&[("x", rows.slice())], form).unwrap();
        let body = String::from_utf8(body).unwrap().replacen(key, asked, 1);
        let signature = rows.signature(false);
        let request = JsonRequest::parse(body.as_bytes()).unwrap();
        let (found, columns) = decode(&signature, |page| request.read_inputs(&signature, page)).unwrap();
        prop_assert_eq!((request.form, found.rows), (form, rows.rows));
        match (&*columns[0], &rows.column) {
            (Column::Raw(read), Column::Raw(sent)) => prop_assert_eq!(
                with_one_nan(rows.dtype, read.as_bytes()),
                with_one_nan(rows.dtype, sent.as_bytes())
            ),
            (read, sent) => prop_assert_eq!(content_of(read), content_of(sent)),
        }
    }

    #[test]
    fn examples_in_json_are_read_as_the_columns_that_they_name(
        floats in vec(any::<f32>().prop_filter("finite", |value| value.is_finite()), 1..6),
        whole: i64,
        text in ".{0,12}",
    ) {
        let mut quoted = Vec::new();
        json::text::write_text(&mut quoted, &text);
        let quoted = String::from_utf8(quoted).unwrap();
        let row = |value: &f32| format!(r#"{{"f":[{value:e}],"i":{whole}}}"#);
        let list: Vec<String> = floats.iter().map(row).collect();
        let body = format!(r#"{{"context":{{"s":{quoted}}},"examples":[{}]}}"#, list.join(","));
        let inputs = [("f", DType::Float32), ("i", DType::Int64), ("s", DType::String)];
        let inputs = inputs.map(|(name, dtype)| spec(name, dtype, &[-1])).to_vec();
        let signature = signature(inputs, vec![spec("y", DType::Float32, &[-1])]);
        let (_, input) = json::examples::parse(body.as_bytes()).unwrap();
        let (found, columns) = decode(&signature, |page| input.read_inputs(&signature, page)).unwrap();
        prop_assert_eq!(found.rows, floats.len());
        let bytes: Vec<u8> = floats.iter().flat_map(|value| value.to_le_bytes()).collect();
        prop_assert_eq!(content_of(&columns[0]), vec![bytes]);
        prop_assert_eq!(content_of(&columns[1]), vec![whole.to_le_bytes().repeat(floats.len())]);
        prop_assert_eq!(content_of(&columns[2]), vec![text.into_bytes(); floats.len()]);
    }
}

/// Signatures of every kind: fixed and open dimensions, any rank, defaults, and inputs of serialized examples.
fn signatures() -> Vec<Signature> {
    let y = || vec![spec("y", DType::Float32, &[-1])];
    let of = |dtype, shape: &[i64]| signature(vec![spec("x", dtype, shape)], y());
    let mut all: Vec<Signature> = ALL.iter().map(|dtype| of(*dtype, &[-1, -1])).collect();
    all.push(of(DType::Float32, &[-1, 1]));
    all.push(signature(vec![spec("x", DType::Int64, &[-1]), spec("s", DType::String, &[-1, 2])], y()));
    all.push(signature(vec![spec("inputs", DType::String, &[-1])], y()));
    for axis in [FirstAxis::Assumed, FirstAxis::Free] {
        let inputs = vec![spec("x", DType::Float32, &[-1, -1]), spec("b", DType::Bool, &[-1])];
        all.push(Signature::with_axis("serving_default".to_owned(), String::new(), inputs, y(), axis).unwrap());
    }
    all
}

/// Hands bytes to every decoder; what one accepts must be as long as it says.
fn try_all(bytes: &[u8]) {
    let _ = (metadata::parse_request(bytes).is_ok(), model_status::parse_request(bytes).is_ok());
    let predict = PredictRequest::parse(bytes);
    let session = SessionRunRequest::parse(bytes);
    let json = JsonRequest::parse(bytes);
    let inputs =
        [examples::parse_request(bytes).map(|(_, input)| input), json::examples::parse(bytes).map(|parsed| parsed.1)];
    let tasks = MultiInferenceRequest::parse(bytes);
    for signature in signatures() {
        let mut decoded = Vec::new();
        if let Ok(request) = &predict {
            let _ = select_outputs(&request.output_filter, &signature).is_ok();
            decoded.push(decode(&signature, |page| request.read_inputs(&signature, page, LIMIT)));
        }
        if let Ok(request) = &session {
            let _ = (request.maps_onto(&signature), request.fetched(&signature));
            decoded.push(decode(&signature, |page| request.inputs.read_inputs(&signature, page, LIMIT)));
        }
        if let Ok(request) = &json {
            decoded.push(decode(&signature, |page| request.read_inputs(&signature, page)));
        }
        if let Ok(tasks) = &tasks {
            let _ = tasks.resolve(|_| Some(((), &signature))).is_ok();
        }
        // The path of a request asks the signature before it has examples read.
        if InferenceMethod::Regress.name() != signature.method_name && signature.first_axis != FirstAxis::Free {
            for input in inputs.iter().flatten() {
                decoded.push(decode(&signature, |page| input.read_inputs(&signature, page)));
            }
        }
        for (rows, columns) in decoded.into_iter().flatten() {
            for (column, spec) in columns.iter().zip(&*signature.inputs) {
                let row = spec.fixed_inner().filter(|_| !rows.unbatched);
                if let Some(row) = row.map(|inner| Column::row_extent(spec.dtype, &inner)) {
                    assert_eq!(column.extent(), rows.rows * row, "{}", spec.name);
                }
            }
        }
    }
}

/// A good message of each kind, to be damaged.
fn good() -> Vec<Vec<u8>> {
    let floats = tensor_message(1, &[2, 1], &content(&[0; 8]));
    let predict = Request::new("m").version(3).input("x", floats).only("y").encode();
    let json =
        br#"{"signature_name":"a","instances":[{"x":1.5e3,"s":["\u00e9",{"b64":"QUJD"}]},{"x":-2,"s":["a","b"]}]}"#;
    let columnar = br#"{"inputs":{"x":[[1,2],[3,NaN]],"b":[true,false]}}"#;
    let examples = br#"{"context":{"a":[1,2]},"examples":[{"x":1.5,"s":"a"},{"x":[-Infinity],"s":{"b64":"QQ=="}}]}"#;
    let mut entry = Vec::new();
    wire::put_bytes(&mut entry, 1, b"x");
    wire::put_bytes(&mut entry, 2, &[0x12, 6, 0x0a, 4, 0, 0, 0x80, 0x3f]);
    let (mut features, mut example, mut list, mut input, mut classify) = (vec![], vec![], vec![], vec![], vec![]);
    wire::put_bytes(&mut features, 1, &entry);
    wire::put_bytes(&mut example, 1, &features);
    wire::put_bytes(&mut list, 1, &example);
    wire::put_bytes(&mut input, 1, &list);
    ModelSpec { name: "m", ..ModelSpec::default() }.write(&mut classify, 1);
    wire::put_bytes(&mut classify, 2, &input);
    vec![predict, json.to_vec(), columnar.to_vec(), examples.to_vec(), classify]
}

/// A good message with some bytes replaced, inserted, removed or cut off.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    (select(good()), vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 0..5)).prop_map(|(mut bytes, edits)| {
        for (at, byte, kind) in edits {
            let at = at.index(bytes.len().max(1));
            match kind {
                0 if !bytes.is_empty() => bytes[at] = byte,
                1 if !bytes.is_empty() => drop(bytes.remove(at)),
                2 => bytes.truncate(at),
                _ => bytes.insert(at.min(bytes.len()), byte),
            }
        }
        bytes
    })
}

/// Bytes that JSON is made of.
fn json_like() -> impl Strategy<Value = Vec<u8>> {
    let words: [&[u8]; 23] = [
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\"instances\"",
        b"\"inputs\"",
        b"\"x\"",
        b"\"b64\"",
        b"\"examples\"",
        b"1",
        b"-",
        b".5",
        b"e9",
        b"null",
        b"true",
        b"NaN",
        b"Inf",
        b"\"\\ud83d\"",
        b"\"\\u00",
        b" ",
        b"\"",
    ];
    vec(select(words.map(<[u8]>::to_vec).to_vec()), 0..24).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in vec(any::<u8>(), 0..80)) {
        try_all(&bytes);
    }

    #[test]
    fn no_damaged_message_makes_a_decoder_panic(bytes in damaged()) {
        try_all(&bytes);
    }

    #[test]
    fn no_text_like_json_makes_a_decoder_panic(bytes in json_like()) {
        try_all(&bytes);
    }
}
