//! The executor of a version that runs in worker processes: a batch goes to an idle worker without Python, which is asked
//! about what is not an everyday answer: a worker that died, errors, streams, and no worker that is idle.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tidegate_codec::json::text::write_text;
use tidegate_codec::status::Status;
use tidegate_codec::tensors::Tensor;
use tidegate_engine::batching::{Executor, Prediction, Work};
use tidegate_workers::{LineError, Message, Named};

use crate::callbacks::executor::PythonExecutor;
use crate::workers::idle::{IdleWorkers, Member};
use crate::workers::line::to_arrays;

/// What a worker says before outputs without errors, in the words of `tidegate_serving.workers.channel`.
const OUTPUTS: &[u8] = br#"{"kind": "outputs", "errors": {}}"#;

/// Idle workers, and Python for what they do not settle.
pub(crate) struct WorkerExecutor {
    python: PythonExecutor,
    /// None once it is dropped.
    idle: Option<Py<IdleWorkers>>,
    entries: AtomicU64,
    /// Has the calling thread begin soon when it wakes.
    short_turns: fn(),
}

/// What came of a batch that a worker was asked.
enum Asked {
    Answered(Prediction),
    /// Something else, which Python reads.
    Told(Message),
    /// Nobody is there any more, or somebody who makes no sense in this way.
    Died(Option<String>),
}

impl WorkerExecutor {
    pub(crate) fn new(python: PythonExecutor, idle: Py<IdleWorkers>, short_turns: fn()) -> WorkerExecutor {
        WorkerExecutor { python, idle: Some(idle), entries: AtomicU64::new(0), short_turns }
    }
}

fn ask(member: &Member, work: &Work) -> Asked {
    let signature = &work.served.signature;
    let mut request = br#"{"kind": "predict", "signature": "#.to_vec();
    write_text(&mut request, &signature.name);
    request.push(b'}');
    let inputs = signature.inputs.iter().zip(&work.columns).zip(work.shapes.iter());
    let inputs: Vec<Named<'_>> = inputs
        .map(|((spec, column), inner)| Named {
            name: &spec.name,
            dtype: spec.dtype,
            shape: (!work.unbatched).then_some(work.rows).into_iter().chain(inner.iter().copied()).collect(),
            column,
        })
        .collect();
    match member.line.send(&request, &inputs).and_then(|()| member.line.receive()) {
        Ok(message) if message.text == OUTPUTS => {
            outputs(message, work).map_or_else(|what| Asked::Died(Some(what)), Asked::Answered)
        }
        Ok(message) => Asked::Told(message),
        Err(LineError::Closed(_)) => Asked::Died(None),
        Err(LineError::NoSense(what)) => Asked::Died(Some(what)),
    }
}

/// The declared outputs in the signature's order; shapes are checked by whoever asked for them.
fn outputs(message: Message, work: &Work) -> Result<Prediction, String> {
    let mut given = message.tensors;
    let mut find = |name: &str, dtype| -> Result<Option<Tensor>, String> {
        let Some(index) = given.iter().position(|(other, ..)| other == name) else { return Ok(None) };
        let (_, found, tensor) = given.swap_remove(index);
        if found == dtype { Ok(Some(tensor)) } else { Err(format!("output '{name}' is of dtype {}", found.name())) }
    };
    let wanted = work.served.signature.outputs.iter();
    let outputs = wanted.map(|spec| find(&spec.name, spec.dtype)).collect::<Result<_, _>>()?;
    Ok(Prediction { outputs, errors: Vec::new() })
}

impl Executor for WorkerExecutor {
    fn execute(&self, work: Work) -> Result<Prediction, Status> {
        let idle = self.idle.as_ref().filter(|_| !self.python.is_stopping());
        let Some((idle, member)) = idle.and_then(|idle| idle.get().pop().map(|member| (idle.get(), member))) else {
            return self.python.execute(work);
        };
        self.entries.fetch_add(1, Ordering::Relaxed);
        match ask(&member, &work) {
            Asked::Answered(prediction) => {
                idle.push(member);
                Ok(prediction)
            }
            Asked::Told(Message { text, tensors }) => self.python.settle(work, "told", |py| {
                let text = PyBytes::new(py, &text).into_any().unbind();
                Ok(vec![member.worker, text, to_arrays(py, tensors)?.into_any().unbind()])
            }),
            Asked::Died(what) => self
                .python
                .settle(work, "died", |py| Ok(vec![member.worker, what.into_pyobject(py)?.into_any().unbind()])),
        }
    }

    fn stream(&self, work: Work, wanted: &mut dyn FnMut(Prediction) -> bool) -> Result<(), Status> {
        self.python.stream(work, wanted)
    }

    fn entries(&self) -> u64 {
        self.python.entries() + self.entries.load(Ordering::Relaxed)
    }

    fn share_memory(&self) {
        self.python.share_memory();
        self.idle.iter().for_each(|idle| idle.get().rest());
    }

    /// What it does itself is short, and a request waits for it.
    fn host(&self, thread: &mut (dyn FnMut() + Send)) {
        (self.short_turns)();
        self.python.host(thread);
    }
}

impl Drop for WorkerExecutor {
    fn drop(&mut self) {
        self.python.let_go(self.idle.take());
    }
}
