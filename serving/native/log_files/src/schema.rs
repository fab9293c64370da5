//! The columns of a log's file, by the signature that was called. Their names are those of `contract/log_record.py`.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use tidegate_codec::dtype::DType;
use tidegate_codec::signatures::{Signature, TensorSpec};

use crate::rules::{ColumnRules, Rule};

const FORMAT: &str = "tidegate.inference-log/1";
/// Columns of every file, in their order; inputs and outputs follow.
pub(crate) const META: [&str; 9] =
    ["request_id", "trace_id", "row", "role", "status", "signature", "received_at", "event_time", "latency_us"];

/// How many lists a row of this input or output is nested in. Each complex number is a list of its two parts.
pub(crate) fn depth(spec: &TensorSpec) -> usize {
    let axes = if spec.admits_any_rank() { 1 } else { spec.inner().len() };
    axes + usize::from(spec.dtype.is_complex())
}

/// The columns' names and types.
pub(crate) fn schema(signature: &Signature, rules: &ColumnRules) -> Result<TypePtr> {
    let text = Some(LogicalType::String);
    let moment = Some(LogicalType::timestamp(true, TimeUnit::MICROS));
    let kinds = [
        (Physical::BYTE_ARRAY, text.clone(), Repetition::REQUIRED),
        (Physical::BYTE_ARRAY, text.clone(), Repetition::OPTIONAL),
        (Physical::INT32, None, Repetition::REQUIRED),
        (Physical::BYTE_ARRAY, text.clone(), Repetition::REQUIRED),
        (Physical::INT32, None, Repetition::REQUIRED),
        (Physical::BYTE_ARRAY, text, Repetition::REQUIRED),
        (Physical::INT64, moment.clone(), Repetition::REQUIRED),
        (Physical::INT64, moment, Repetition::OPTIONAL),
        (Physical::INT64, None, Repetition::REQUIRED),
    ];
    let meta = META.iter().zip(kinds);
    let mut fields = meta
        .map(|(name, (physical, logical, needed))| leaf(name, physical, logical, needed))
        .collect::<Result<Vec<_>>>()?;
    let inputs = signature.inputs.iter().map(|spec| (input_name(spec), spec, Repetition::REQUIRED));
    let outputs = signature.outputs.iter().map(|spec| (output_name(spec), spec, Repetition::OPTIONAL));
    for (name, spec, needed) in inputs.chain(outputs) {
        match rules.of(&name) {
            Rule::Plain => fields.push(nested(&name, spec.dtype, depth(spec), needed)?),
            Rule::Hash => fields.push(nested(&name, DType::String, depth(spec), needed)?),
            Rule::Omit => {}
        }
    }
    Ok(Arc::new(Type::group_type_builder("schema").with_fields(fields).build()?))
}

/// How they are written. Of numbers and request ids a dictionary costs half of the writing and makes files larger.
///
/// Metadata say of each column that is not written as it is what became of it: `log_column.in.email` is `hash`.
pub(crate) fn properties(signature: &Signature, rules: &ColumnRules) -> WriterProperties {
    let inputs = signature.inputs.iter().map(|spec| (input_name(spec), spec));
    let tensors: Vec<_> = inputs.chain(signature.outputs.iter().map(|spec| (output_name(spec), spec))).collect();
    let mut metadata = vec![KeyValue::new("format".to_owned(), FORMAT.to_owned())];
    for (name, _) in &tensors {
        let rule = rules.of(name);
        if rule != Rule::Plain {
            metadata.push(KeyValue::new(format!("log_column.{name}"), rule.name().to_owned()));
        }
    }
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("tidegate ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(metadata))
        .set_compression(Compression::LZ4_RAW)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true);
    let path = |name: &str| ColumnPath::new(vec![name.to_owned()]);
    // Each is another: nothing repeats that could be left out.
    builder = builder.set_column_compression(path("request_id"), Compression::UNCOMPRESSED);
    for name in ["row", "role", "status", "signature"] {
        builder = builder.set_column_dictionary_enabled(path(name), true);
    }
    // By that of `signature`, of which a file has one, readers find the files that they want.
    for name in ["status", "signature", "received_at", "event_time", "latency_us"] {
        builder = builder.set_column_statistics_enabled(path(name), EnabledStatistics::Chunk);
    }
    for (name, spec) in tensors {
        let dtype = if rules.of(&name) == Rule::Hash { DType::String } else { spec.dtype };
        let mut parts = vec![name];
        parts.extend((0..depth(spec)).flat_map(|_| ["list".to_owned(), "element".to_owned()]));
        let path = ColumnPath::new(parts);
        builder = match (dtype, depth(spec)) {
            (DType::String, _) => builder.set_column_dictionary_enabled(path, true),
            (_, 0) => builder.set_column_statistics_enabled(path, EnabledStatistics::Chunk),
            _ => builder,
        };
    }
    builder.build()
}

pub(crate) fn input_name(spec: &TensorSpec) -> String {
    format!("in.{}", spec.name)
}

pub(crate) fn output_name(spec: &TensorSpec) -> String {
    format!("out.{}", spec.name)
}

fn leaf(name: &str, physical: Physical, logical: Option<LogicalType>, needed: Repetition) -> Result<TypePtr> {
    let builder = Type::primitive_type_builder(name, physical).with_repetition(needed).with_logical_type(logical);
    Ok(Arc::new(builder.build()?))
}

/// A column of scalars, or of nested lists for rows of more axes.
fn nested(name: &str, dtype: DType, depth: usize, needed: Repetition) -> Result<TypePtr> {
    if depth == 0 {
        let (physical, logical) = element(dtype);
        return leaf(name, physical, logical, needed);
    }
    let element = nested("element", dtype, depth - 1, Repetition::REQUIRED)?;
    let list = Type::group_type_builder("list").with_repetition(Repetition::REPEATED).with_fields(vec![element]);
    let list = Arc::new(list.build()?);
    let group = Type::group_type_builder(name).with_repetition(needed).with_logical_type(Some(LogicalType::List));
    Ok(Arc::new(group.with_fields(vec![list]).build()?))
}

/// How elements are stored, and what they mean. Half floats become floats, which every reader knows.
fn element(dtype: DType) -> (Physical, Option<LogicalType>) {
    let whole = |bits, signed| Some(LogicalType::integer(bits, signed));
    match dtype {
        DType::Bool => (Physical::BOOLEAN, None),
        DType::Int8 => (Physical::INT32, whole(8, true)),
        DType::Int16 => (Physical::INT32, whole(16, true)),
        DType::Int32 => (Physical::INT32, None),
        DType::Int64 => (Physical::INT64, None),
        DType::UInt8 => (Physical::INT32, whole(8, false)),
        DType::UInt16 => (Physical::INT32, whole(16, false)),
        DType::UInt32 => (Physical::INT32, whole(32, false)),
        DType::UInt64 => (Physical::INT64, whole(64, false)),
        DType::Float16 | DType::Float32 | DType::Complex64 => (Physical::FLOAT, None),
        DType::Float64 | DType::Complex128 => (Physical::DOUBLE, None),
        DType::String => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    }
}
