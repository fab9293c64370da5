//! A model that answers zeros of the right shape at once, and the signatures that it serves under.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_codec::dtype::DType;
use tidegate_codec::signatures::{FirstAxis, Signature, TensorSpec};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, Strings, Tensor, Words};
use tidegate_engine::batching::{Batching, Executor, Prediction, Work};
use tidegate_engine::log::{LogBlock, LogSink};
use tidegate_engine::serving_map::{Change, Publish};
use tidegate_engine::telemetry::TraceSink;
use tidegate_plane::hooks::Hooks;

use crate::pages::spec;

/// The model, and the hooks of its plane.
#[derive(Default)]
pub struct NullModel {
    entries: AtomicU64,
}

impl Executor for NullModel {
    fn execute(&self, work: Work) -> Result<Prediction, Status> {
        self.entries.fetch_add(1, Ordering::Relaxed);
        let outputs = work.served.signature.outputs.iter().map(|spec| Some(zeros(spec, work.rows))).collect();
        Ok(Prediction { outputs, errors: Vec::new() })
    }

    fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }
}

impl Hooks for NullModel {
    fn released(&self, _: &str, _: i64) {}

    fn control(&self, _: &str, request: &[u8]) -> Result<Vec<u8>, Status> {
        Ok(request.to_vec())
    }
}

impl TraceSink for NullModel {}

impl LogSink for NullModel {
    fn take(&self, _: LogBlock) -> bool {
        true
    }
}

fn zeros(spec: &TensorSpec, rows: usize) -> Tensor {
    let inner = spec.inner().iter().map(|dim| usize::try_from(*dim).unwrap_or(1));
    let shape: Vec<usize> = std::iter::once(rows).chain(inner).collect();
    let count: usize = shape.iter().product();
    let column = match spec.dtype {
        DType::String => {
            let mut strings = Strings::default();
            (0..count).for_each(|_| strings.push(b"a"));
            Column::Strings(strings)
        }
        _ => {
            let mut words = Words::default();
            words.push(&vec![0; count * spec.dtype.size()]);
            Column::Raw(words)
        }
    };
    Tensor { column, shape }
}

/// Three models: `m` takes numbers and strings by name, `e` serialized examples, and `s` streams.
pub fn publish(executor: &Arc<NullModel>) -> Vec<Change> {
    let numbers = || vec![spec("x", DType::Float32, &[-1]), spec("s", DType::String, &[-1, -1])];
    let examples = || vec![spec("inputs", DType::String, &[-1])];
    let classes = || vec![spec("classes", DType::String, &[-1, 2]), spec("scores", DType::Float32, &[-1, 2])];
    let value = || vec![spec("outputs", DType::Float32, &[-1, 1])];
    let scalar = |name: &str| vec![spec(name, DType::Float32, &[-1])];
    let of = |inputs: fn() -> Vec<TensorSpec>| {
        vec![
            signature("serving_default", "predict", scalar("x"), scalar("y")),
            signature("both", "predict", numbers(), scalar("y")),
            signature("class", "classify", inputs(), classes()),
            signature("value", "regress", inputs(), value()),
        ]
    };
    let batching = Batching {
        max_batch_rows: 1 << 16,
        timeout_us: 0,
        max_queued_rows: 1 << 20,
        waits_when_full: false,
        concurrency: 1,
        allowed_batch_sizes: Arc::new([]),
        pad_variable_length_inputs: false,
        priority_levels: 0,
        default_priority_level: 0,
    };
    let change = |model: &str, signatures| {
        let (model, batching, executor) = (model.to_owned(), batching.clone(), executor.clone());
        Change::Publish(Publish { model, version: 1, signatures, batching, executor, description: None })
    };
    vec![change("m", of(numbers)), change("e", of(examples)), change("s", vec![streaming(scalar("x"), scalar("y"))])]
}

fn streaming(inputs: Vec<TensorSpec>, outputs: Vec<TensorSpec>) -> Signature {
    let made = Signature::with_axis("serving_default".to_owned(), String::new(), inputs, outputs, FirstAxis::Free);
    made.and_then(Signature::with_streaming).unwrap_or_else(|why| panic!("{why}"))
}

fn signature(name: &str, method: &str, inputs: Vec<TensorSpec>, outputs: Vec<TensorSpec>) -> Signature {
    let made = Signature::new(name.to_owned(), format!("tensorflow/serving/{method}"), inputs, outputs);
    made.unwrap_or_else(|why| panic!("{why}"))
}
