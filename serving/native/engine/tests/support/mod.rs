//! A queue by itself, with one input of floats: what tests of the queue and of requests that wait are made of.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use http::HeaderValue;
use tidegate_codec::dtype::DType;
use tidegate_codec::signatures::{RequestRows, Signature, TensorSpec};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, Page};
use tidegate_engine::batching::queue::NextBatch;
use tidegate_engine::batching::{
    Appended, Batching, Entry, ExecutorPool, Queue, Role, ServedSignature, ThreadStarter, Unanswered,
};
use tidegate_engine::memory::Memory;
use tidegate_engine::metrics::{Asked, Call, Endpoint, VersionMetrics};
use tidegate_engine::request_id::{IdSource, RequestId};

struct Nobody;

impl ThreadStarter for Nobody {
    fn start_thread(&self) {}
}

/// A queue with one input of floats, one per row, and the memory of its requests.
pub struct Fixture {
    pub queue: Arc<Queue>,
    pub memory: Arc<Memory>,
    pub ids: IdSource,
    start: Instant,
    entries: AtomicU64,
}

pub fn fixture(max_batch_rows: usize, max_queued_rows: usize) -> Fixture {
    fixture_of(&[-1], &limits(max_batch_rows, max_queued_rows))
}

pub fn limits(max_batch_rows: usize, max_queued_rows: usize) -> Batching {
    Batching {
        max_batch_rows,
        timeout_us: 0,
        max_queued_rows,
        waits_when_full: false,
        concurrency: 1,
        allowed_batch_sizes: Arc::new([]),
        pad_variable_length_inputs: false,
        priority_levels: 0,
        default_priority_level: 0,
    }
}

/// Its input has this shape.
pub fn fixture_of(shape: &[i64], batching: &Batching) -> Fixture {
    let spec = |name| vec![TensorSpec::new(name, DType::Float32, shape)];
    fixture_for(Signature::new("s".to_owned(), String::new(), spec("x"), spec("y")).unwrap(), batching)
}

/// Of this signature.
pub fn fixture_for(signature: Signature, batching: &Batching) -> Fixture {
    fixture_with_lanes(signature, batching, 1)
}

/// With a lane for each of so many I/O threads.
pub fn fixture_with_lanes(signature: Signature, batching: &Batching, lanes: usize) -> Fixture {
    let memory = Arc::new(Memory::new(1 << 30, 1 << 20));
    let nobody: Weak<Nobody> = Weak::new();
    let pool = Arc::new(ExecutorPool::new(nobody));
    let served = ServedSignature {
        model: "m".into(),
        version: 1,
        version_header: HeaderValue::from(1),
        unanswered: Unanswered::new(memory.of_model("m"), &signature.outputs, pool.clone()),
        signature,
        memory: memory.of_model("m"),
        log: memory.of_log("m"),
        metrics: Arc::<VersionMetrics>::default(),
        times: Arc::default(),
    };
    let queue = Arc::new(Queue::new(Arc::new(served), pool, batching, lanes));
    let (start, entries) = (Instant::now(), AtomicU64::new(0));
    Fixture { queue, memory, ids: IdSource::default(), start, entries }
}

/// Writes so many rows of this inner shape, all of this value.
pub fn fill_shaped(page: &mut Page<'_>, value: f32, rows: usize, inner: &[usize]) -> Result<RequestRows, Status> {
    *page.shapes = vec![inner.to_vec()];
    let filled = fill(page, value, rows * inner.iter().product::<usize>())?;
    Ok(RequestRows { rows, ..filled })
}

/// Writes so many rows of this value.
pub fn fill(page: &mut Page<'_>, value: f32, rows: usize) -> Result<RequestRows, Status> {
    page.room.take(rows * 4)?;
    let Column::Raw(words) = &mut *page.columns[0] else { panic!("not floats") };
    (0..rows).for_each(|_| words.push(&value.to_le_bytes()));
    Ok(RequestRows { rows, flat: false, unbatched: false })
}

impl Fixture {
    /// Requests come a microsecond after each other, however busy the machine is.
    pub fn entry(&self, slot: u64) -> Entry {
        let received = self.start + Duration::from_micros(self.entries.fetch_add(1, Ordering::Relaxed));
        Entry {
            first_row: 0,
            rows: 0,
            seat: 0,
            refused: false,
            own_shapes: None,
            flat: false,
            asked: Asked { endpoint: Endpoint::Grpc, call: Call::Predict },
            slot: Some(slot),
            id: RequestId::choose(None, &self.ids),
            trace: None,
            received,
            entered: received,
            deadline: received + Duration::from_secs(60),
            role: Role::Primary,
            level: 0,
            under_way: 0,
            logged: false,
            token: None,
            stream: None,
            patience: None,
        }
    }

    /// Appends rows whose value is the request's slot.
    pub fn append(&self, slot: u64, rows: usize, bytes: usize) -> Result<Appended, Status> {
        self.append_to(0, slot, rows, bytes)
    }

    /// Appends to this lane.
    pub fn append_to(&self, lane: usize, slot: u64, rows: usize, bytes: usize) -> Result<Appended, Status> {
        self.queue.append(&Arc::new(()), lane, self.entry(slot), bytes, &|page| fill(page, slot as f32, rows))
    }

    /// Appends rows of this level, 0 for the highest priority.
    pub fn append_level(&self, slot: u64, rows: usize, level: usize) -> Result<Appended, Status> {
        let entry = Entry { level, ..self.entry(slot) };
        self.queue.append(&Arc::new(()), 0, entry, 4 * rows, &|page| fill(page, slot as f32, rows))
    }

    /// Appends rows of this inner shape whose value is the request's slot.
    pub fn append_shaped(&self, slot: u64, rows: usize, inner: &[usize], bytes: usize) -> Appended {
        let decode = |page: &mut Page<'_>| fill_shaped(page, slot as f32, rows, inner);
        self.queue.append(&Arc::new(()), 0, self.entry(slot), bytes, &decode).unwrap()
    }

    /// Slots and rows of the batches that wait; says if a request's rows are not its own.
    pub fn take_all(&self) -> Vec<Vec<(u64, usize)>> {
        let mut taken = Vec::new();
        while let NextBatch::Batch(batch) = self.queue.take_early() {
            let Column::Raw(words) = &*batch.columns[0] else { panic!("not floats") };
            let values: Vec<f32> =
                words.as_bytes().chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
            assert_eq!(values.len(), batch.rows);
            for entry in &batch.entries {
                let own = &values[entry.first_row..entry.first_row + entry.rows];
                assert!(own.iter().all(|value| *value == entry.slot.unwrap() as f32), "{own:?}");
            }
            taken.push(batch.entries.iter().map(|entry| (entry.slot.unwrap(), entry.rows)).collect());
        }
        taken
    }
}
