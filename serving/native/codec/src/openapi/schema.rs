//! JSON schemas of requests and answers: what they allow is accepted, as far as schemas can say it. That lists of unknown
//! length have to be as long as their neighbours, they cannot.

use crate::dtype::DType;
use crate::model_spec::DEFAULT_SIGNATURE;
use crate::open_inference::datatype;
use crate::openapi::text::quoted;
use crate::signatures::{FirstAxis, Signature, TensorSpec};

const BASE64: &str = "{\"$ref\":\"#/components/schemas/Base64\"}";

/// Whether TensorFlow Serving's JSON can carry what a signature takes and gives: it has no halves and no complex numbers.
pub(super) fn is_written_in_json(signature: &Signature) -> bool {
    has_all(signature, DType::has_json)
}

/// Whether plain objects can, which have halves.
pub(super) fn is_written_plainly(signature: &Signature) -> bool {
    has_all(signature, |dtype| !dtype.is_complex())
}

fn has_all(signature: &Signature, has: impl Fn(DType) -> bool) -> bool {
    signature.needed_inputs().chain(&*signature.outputs).all(|spec| has(spec.dtype))
}

/// `{"instances": [...]}` and `{"inputs": ...}`.
pub(super) fn predict_requests(signature: &Signature) -> Vec<String> {
    let named = signature.name != DEFAULT_SIGNATURE;
    let (name, inputs) = (signature_name(&signature.name), &signature.inputs);
    if inputs.is_empty() {
        return Vec::new();
    }
    let required = |key: &str| if named { format!("\"signature_name\",\"{key}\"") } else { format!("\"{key}\"") };
    let form = |key: &str, values: &str| {
        let required = required(key);
        format!("{{\"type\":\"object\",\"properties\":{{{name},\"{key}\":{values}}},\"required\":[{required}]}}")
    };
    let whole = one_or_object(signature, inputs, |spec| nested(spec, &outer(spec)));
    let mut forms = vec![form("inputs", &whole)];
    if signature.first_axis != FirstAxis::Free {
        let row = one_or_object(signature, inputs, |spec| nested(spec, spec.inner()));
        forms.push(form("instances", &format!("{{\"type\":\"array\",\"items\":{row},\"minItems\":1}}")));
    }
    forms
}

/// `{"predictions": [...]}` and `{"outputs": ...}`.
pub(super) fn predict_answers(signature: &Signature) -> Vec<String> {
    let outputs = &signature.outputs;
    let form = |key: &str, values: &str| {
        format!("{{\"type\":\"object\",\"properties\":{{\"{key}\":{values}}},\"required\":[\"{key}\"]}}")
    };
    let row = one_or_object(signature, outputs, |spec| nested(spec, spec.inner()));
    let whole = one_or_object(signature, outputs, |spec| nested(spec, &outer(spec)));
    vec![form("outputs", &whole), form("predictions", &format!("{{\"type\":\"array\",\"items\":{row}}}"))]
}

/// One object of the inputs of one row, or what the signature's schema says.
pub(super) fn plain_request(signature: &Signature) -> String {
    match &signature.schema {
        Some(schema) => schema.request.clone(),
        None => object(signature, &signature.inputs, |spec| nested(spec, spec.inner())),
    }
}

/// The same of the outputs.
pub(super) fn plain_answer(signature: &Signature) -> String {
    match &signature.schema {
        Some(schema) => schema.response.clone(),
        None => object(signature, &signature.outputs, |spec| nested(spec, spec.inner())),
    }
}

/// `{"inputs": [{"name", "shape", "datatype", "data"}]}`; `only` where the model has no other signature.
pub(super) fn infer_request(signature: &Signature, only: bool) -> String {
    let inputs: Vec<String> = signature.inputs.iter().map(infer_input).collect();
    let named = |spec: &TensorSpec| {
        let name = quoted(&spec.name);
        format!(
            "{{\"contains\":{{\"type\":\"object\",\"properties\":{{\"name\":{{\"const\":{name}}}}},\"required\":[\"name\"]}}}}"
        )
    };
    let needed: Vec<String> = signature.needed_inputs().map(named).collect();
    let all = if needed.is_empty() { String::new() } else { format!(",\"allOf\":[{}]", needed.join(",")) };
    let items = if inputs.is_empty() { "false".to_owned() } else { format!("{{\"anyOf\":[{}]}}", inputs.join(",")) };
    let most = inputs.len();
    let parameters = format!("{{\"type\":\"object\",\"properties\":{{{}}}", signature_name(&signature.name));
    let (parameters, required) = match only || signature.name == DEFAULT_SIGNATURE {
        true => (format!("{parameters}}}"), "\"inputs\""),
        false => (format!("{parameters},\"required\":[\"signature_name\"]}}"), "\"parameters\",\"inputs\""),
    };
    format!(
        "{{\"type\":\"object\",\"properties\":{{\"id\":{{\"type\":\"string\"}},\"parameters\":{parameters},\"inputs\":\
         {{\"type\":\"array\",\"items\":{items},\"maxItems\":{most}{all}}}}},\"required\":[{required}]}}"
    )
}

fn infer_input(spec: &TensorSpec) -> String {
    let (name, datatype, element) = (quoted(&spec.name), datatype::name(spec.dtype), element(spec.dtype));
    let size = |size: &i64| match *size {
        ..0 => "{\"type\":\"integer\",\"minimum\":0}".to_owned(),
        size => format!("{{\"const\":{size}}}"),
    };
    let shape = match spec.unknown_rank {
        true => "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":0}}".to_owned(),
        false => {
            let (sizes, rank) = (outer(spec), spec.shape.len());
            let sizes: Vec<String> = sizes.iter().map(size).collect();
            let sizes = if rank == 0 { String::new() } else { format!("\"prefixItems\":[{}],", sizes.join(",")) };
            format!("{{\"type\":\"array\",{sizes}\"minItems\":{rank},\"maxItems\":{rank}}}")
        }
    };
    format!(
        "{{\"type\":\"object\",\"properties\":{{\"name\":{{\"const\":{name}}},\"shape\":{shape},\"datatype\":\
         {{\"const\":\"{datatype}\"}},\"data\":{{\"type\":\"array\",\"items\":{{\"anyOf\":[{element},{{\"type\":\
         \"array\"}}]}}}}}},\"required\":[\"name\",\"shape\",\"datatype\",\"data\"]}}"
    )
}

pub(super) fn signature_name(name: &str) -> String {
    format!("\"signature_name\":{{\"const\":{}}}", quoted(name))
}

/// Dimensions of a whole tensor; the batch is of any size.
fn outer(spec: &TensorSpec) -> Vec<i64> {
    match spec.is_free() {
        true => spec.shape.clone(),
        false => std::iter::once(-1).chain(spec.inner().iter().copied()).collect(),
    }
}

/// The value of the only tensor, or an object of all of them by name.
fn one_or_object(signature: &Signature, specs: &[TensorSpec], value: impl Fn(&TensorSpec) -> String) -> String {
    match specs {
        [only] => value(only),
        _ => object(signature, specs, value),
    }
}

fn object(signature: &Signature, specs: &[TensorSpec], value: impl Fn(&TensorSpec) -> String) -> String {
    let members: Vec<String> = specs.iter().map(|spec| format!("{}:{}", quoted(&spec.name), value(spec))).collect();
    let has_default = |name: &str| {
        let inputs = signature.inputs.iter().zip(&*signature.defaults);
        std::ptr::eq(specs, &*signature.inputs)
            && inputs.into_iter().any(|(spec, one)| spec.name == name && one.is_some())
    };
    let required = specs.iter().filter(|spec| !has_default(&spec.name));
    let required: Vec<String> = required.map(|spec| quoted(&spec.name)).collect();
    let (members, required) = (members.join(","), required.join(","));
    format!(
        "{{\"type\":\"object\",\"properties\":{{{members}}},\"required\":[{required}],\"additionalProperties\":false}}"
    )
}

/// Lists in lists, as deep as there are dimensions.
fn nested(spec: &TensorSpec, dims: &[i64]) -> String {
    if spec.admits_any_rank() {
        return "true".to_owned();
    }
    let wrap = |inner: String, size: &i64| match *size {
        ..0 => format!("{{\"type\":\"array\",\"items\":{inner}}}"),
        size => format!("{{\"type\":\"array\",\"items\":{inner},\"minItems\":{size},\"maxItems\":{size}}}"),
    };
    let deep = dims.iter().rev().fold(element(spec.dtype), wrap);
    match dims.split_last() {
        // One element per row may come without the list around it.
        Some((1, others)) if spec.may_be_flat() => {
            let flat = others.iter().rev().fold(element(spec.dtype), wrap);
            format!("{{\"anyOf\":[{deep},{flat}]}}")
        }
        _ => deep,
    }
}

/// A value. Floats have no limits: in a request the nearest one counts, infinity beyond the largest, and the largest is
/// answered with digits that may say a little more.
pub(super) fn element(dtype: DType) -> String {
    let whole = |least: i128, most: i128| format!("{{\"type\":\"integer\",\"minimum\":{least},\"maximum\":{most}}}");
    match dtype {
        DType::Bool => "{\"type\":\"boolean\"}".to_owned(),
        DType::Int8 => whole(i8::MIN.into(), i8::MAX.into()),
        DType::Int16 => whole(i16::MIN.into(), i16::MAX.into()),
        DType::Int32 => whole(i32::MIN.into(), i32::MAX.into()),
        DType::Int64 => whole(i64::MIN.into(), i64::MAX.into()),
        DType::UInt8 => whole(0, u8::MAX.into()),
        DType::UInt16 => whole(0, u16::MAX.into()),
        DType::UInt32 => whole(0, u32::MAX.into()),
        DType::UInt64 => whole(0, u64::MAX.into()),
        DType::Float16 | DType::Float32 | DType::Float64 => "{\"type\":\"number\"}".to_owned(),
        DType::Complex64 | DType::Complex128 => "false".to_owned(),
        DType::String => format!("{{\"anyOf\":[{{\"type\":\"string\"}},{BASE64}]}}"),
    }
}
