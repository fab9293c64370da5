//! Models that take examples, whole or as columns, and the signatures under which they serve.
//! The tests of Classify, Regress, MultiInference and SessionRun publish them on a running plane.

use std::sync::Arc;

use half::f16;
use tidegate_codec::dtype::DType;
use tidegate_codec::signatures::{Signature, TensorSpec};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, Strings, Tensor};
use tidegate_engine::batching::{Prediction, Work};
use tidegate_engine::serving_map::{Change, Publish};

use super::grpc::Answer as GrpcAnswer;
use super::{Gate, Model, Running, batching, column_of, settings, spec};

pub const CLASSIFY_METHOD: &str = "tensorflow/serving/classify";
pub const REGRESS_METHOD: &str = "tensorflow/serving/regress";
pub const PREDICT_METHOD: &str = "tensorflow/serving/predict";

pub fn named(name: &str, method: &str, inputs: Vec<TensorSpec>, outputs: Vec<TensorSpec>) -> Signature {
    Signature::new(name.to_owned(), method.to_owned(), inputs, outputs).unwrap()
}

pub fn publish(model: &str, executor: &Arc<Model>, signatures: Vec<Signature>) -> Change {
    let (model, executor) = (model.to_owned(), executor.clone());
    Change::Publish(Publish { model, version: 7, signatures, batching: batching(), executor, description: None })
}

pub fn running(model: &Arc<Model>, signatures: Vec<Signature>) -> Running {
    let running = Running::start(&settings());
    running.plane.apply(vec![publish("m", model, signatures)]).unwrap();
    running
}

pub fn inputs() -> Vec<TensorSpec> {
    vec![spec("inputs", DType::String, &[-1])]
}

pub fn classes_and_scores() -> Vec<TensorSpec> {
    vec![spec("classes", DType::String, &[-1, 2]), spec("scores", DType::Float32, &[-1, 2])]
}

pub fn lengths(work: &Work) -> Vec<f32> {
    match &*work.columns[0] {
        Column::Strings(strings) => (0..work.rows).map(|row| strings.get(row).len() as f32).collect(),
        Column::Raw(_) => panic!("not strings"),
    }
}

pub fn string_column(values: &[&[u8]]) -> Column {
    let mut strings = Strings::default();
    values.iter().for_each(|value| strings.push(value));
    Column::Strings(strings)
}

/// Knows an example by its length: the classes `no` and `yes` get minus and plus it, the regression is it.
pub fn parse(work: &Work) -> Result<Prediction, Status> {
    let lengths = lengths(work);
    let regress = Tensor { column: column_of(&lengths), shape: vec![work.rows, 1] };
    let scores: Vec<f32> = lengths.iter().flat_map(|length| [-length, *length]).collect();
    let scores = Tensor { column: column_of(&scores), shape: vec![work.rows, 2] };
    let labels: Vec<&[u8]> = (0..work.rows).flat_map(|_| [&b"no"[..], b"yes"]).collect();
    let labels = Tensor { column: string_column(&labels), shape: vec![work.rows, 2] };
    let outputs = if work.served.signature.outputs.len() == 1 { vec![regress] } else { vec![labels, scores] };
    Ok(Prediction { outputs: outputs.into_iter().map(Some).collect(), errors: Vec::new() })
}

pub fn parses_itself() -> Arc<Model> {
    Model::new(parse)
}

/// The same, once it is let through the gate.
pub fn parses_at(gate: &Arc<Gate>) -> Arc<Model> {
    let gate = gate.clone();
    Model::new(move |work| {
        gate.pass();
        parse(work)
    })
}

pub fn of_tensorflow() -> Vec<Signature> {
    vec![
        named("serving_default", CLASSIFY_METHOD, inputs(), classes_and_scores()),
        named("value", REGRESS_METHOD, inputs(), vec![spec("outputs", DType::Float32, &[-1, 1])]),
        named("x", PREDICT_METHOD, vec![spec("x", DType::Float32, &[-1])], vec![spec("y", DType::Float32, &[-1])]),
    ]
}

/// A row of a column, added up; a string counts its bytes.
pub fn sum_of_row(column: &Column, dtype: DType, row: usize, rows: usize) -> f32 {
    let words = match column {
        Column::Strings(strings) => return strings.get(row).len() as f32,
        Column::Raw(words) => words.as_bytes(),
    };
    let per_row = words.len() / rows;
    let elements = words[row * per_row..(row + 1) * per_row].chunks_exact(dtype.size());
    let number = |element: &[u8]| match dtype {
        DType::Float16 => f16::from_le_bytes(element.try_into().unwrap()).to_f32(),
        DType::Float32 => f32::from_le_bytes(element.try_into().unwrap()),
        DType::Float64 => f64::from_le_bytes(element.try_into().unwrap()) as f32,
        _ => f32::from(element[0]) - if element.len() > 1 { f32::from(element[element.len() - 1]) } else { 0.0 },
    };
    elements.map(number).sum()
}

/// Adds up its columns, whatever their types are.
pub fn adds_up() -> Arc<Model> {
    Model::new(|work| {
        let specs = work.served.signature.inputs.iter();
        let columns: Vec<(&Column, DType)> =
            work.columns.iter().map(|lease| &**lease).zip(specs.map(|spec| spec.dtype)).collect();
        let sum = |row| columns.iter().map(|(column, dtype)| sum_of_row(column, *dtype, row, work.rows)).sum();
        let sums: Vec<f32> = (0..work.rows).map(sum).collect();
        let output = Tensor { column: column_of(&sums), shape: vec![work.rows] };
        Ok(Prediction { outputs: vec![Some(output)], errors: Vec::new() })
    })
}

pub fn with_columns(columns: Vec<TensorSpec>) -> Running {
    let outputs = vec![spec("y", DType::Float32, &[-1])];
    running(&adds_up(), vec![named("serving_default", PREDICT_METHOD, columns, outputs)])
}

pub fn ok(answer: GrpcAnswer) -> Vec<u8> {
    assert_eq!((answer.code, answer.message.as_str()), (0, ""));
    answer.body
}

pub fn refused(answer: &GrpcAnswer, text: &str) {
    assert_eq!((answer.code, answer.message.as_str()), (3, text));
}
