//! Schemas of Classify and Regress requests: examples whose features are the inputs of the signature.

use crate::dtype::DType;
use crate::inference::{InferenceMethod, InferenceOutputs, takes_serialized};
use crate::model_spec::DEFAULT_SIGNATURE;
use crate::openapi::schema::{element, signature_name};
use crate::openapi::text::quoted;
use crate::signatures::{Signature, TensorSpec};

const FEATURE: &str = "{\"$ref\":\"#/components/schemas/Feature\"}";

/// `{"examples": [{...}]}` for a signature that answers the method; none where it does not.
pub(super) fn request(method: InferenceMethod, signature: &Signature) -> Option<String> {
    InferenceOutputs::of(method, signature, 1).ok()?;
    let features = if takes_serialized(signature) { String::new() } else { features(signature)? };
    let names: Vec<String> = signature.inputs.iter().map(|spec| quoted(&spec.name)).collect();
    let required = if features.is_empty() { String::new() } else { format!(",\"required\":[{}]", names.join(",")) };
    let example = |required: &str| {
        format!("{{\"type\":\"object\",\"properties\":{{{features}}}{required},\"additionalProperties\":{FEATURE}}}")
    };
    let (name, context, example) = (signature_name(&signature.name), example(""), example(&required));
    let named = if signature.name == DEFAULT_SIGNATURE { "" } else { "\"signature_name\"," };
    Some(format!(
        "{{\"type\":\"object\",\"properties\":{{{name},\"context\":{context},\"examples\":{{\"type\":\"array\",\"items\":\
         {example},\"minItems\":1}}}},\"required\":[{named}\"examples\"]}}"
    ))
}

/// The feature of each input; none where an example cannot say all dimensions of one.
fn features(signature: &Signature) -> Option<String> {
    let features: Option<Vec<String>> = signature.inputs.iter().map(feature).collect();
    Some(features?.join(","))
}

/// A list with the values of one row, or the only one.
fn feature(spec: &TensorSpec) -> Option<String> {
    let inner = spec.inner();
    if inner.iter().filter(|size| **size < 0).count() > 1 {
        return None;
    }
    let name = quoted(&spec.name);
    let known: i64 = inner.iter().filter(|size| **size >= 0).product();
    let open = inner.iter().any(|size| *size < 0);
    let sizes = match known {
        0 if open => return None,
        1 if open => String::new(),
        // Any multiple would do, which a schema cannot say.
        _ => format!(",\"minItems\":{known},\"maxItems\":{known}"),
    };
    let mut kinds = Vec::new();
    for value in values(spec.dtype) {
        kinds.push(format!("{{\"type\":\"array\",\"items\":{value}{sizes}}}"));
        if known == 1 {
            kinds.push(value);
        }
    }
    Some(format!("{name}:{{\"anyOf\":[{}]}}", kinds.join(",")))
}

/// The kinds of values that a type takes, one of which a list has throughout: a whole number is another kind than one
/// with a fraction, and beyond a certain size it is no float.
fn values(dtype: DType) -> Vec<String> {
    let whole = |most: i64| format!("{{\"type\":\"integer\",\"minimum\":-{most},\"maximum\":{most}}}");
    let broken = |limits: &str| format!("{{\"type\":\"number\",\"not\":{{\"type\":\"integer\"}}{limits}}}");
    match dtype {
        DType::Float16 => vec![whole(1 << 11), broken(",\"minimum\":-65504,\"maximum\":65504")],
        DType::Float32 => vec![whole(1 << 24), broken("")],
        DType::Float64 => vec![whole(1 << 53), broken("")],
        DType::UInt64 => vec![format!("{{\"type\":\"integer\",\"minimum\":0,\"maximum\":{}}}", i64::MAX)],
        dtype => vec![element(dtype)],
    }
}
