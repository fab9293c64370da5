//! Signatures of every kind, and the columns that a decoder fills for them.

use std::sync::{Arc, LazyLock};

use tidegate_codec::dtype::{ALL, DType};
use tidegate_codec::signatures::{DocumentSchema, FirstAxis, RequestRows, Signature, TensorSpec};
use tidegate_codec::status::Status;
use tidegate_codec::tensors::{Column, ColumnPool, Lease, Page, Room};

use crate::bounds::{self, Memory};

/// What one message may grow to, and what a decoder gets of the memory that it asks for.
pub const LIMIT: usize = 1 << 20;

/// A decoder makes columns, shapes and messages of what it reads: the smallest element that a byte or two can mean is a
/// string's offset, a shape or an example, while vectors double.
const MEMORY: Memory = Memory { fixed: 16 << 10, per_byte: 64 };

/// One signature with the pool of its columns.
pub struct Sheet {
    /// The signature.
    pub signature: Signature,
    columns: Arc<ColumnPool>,
}

static SHEETS: LazyLock<Vec<Sheet>> = LazyLock::new(|| signatures().map(Sheet::new).collect());

/// One of each kind: fixed and open dimensions, any rank, documents, and inputs of serialized examples.
pub fn sheets() -> &'static [Sheet] {
    &SHEETS
}

/// One input or output.
pub fn spec(name: &str, dtype: DType, shape: &[i64]) -> TensorSpec {
    TensorSpec::new(name, dtype, shape)
}

fn signatures() -> impl Iterator<Item = Signature> {
    use DType::{Bool, Float32, Int64, String};
    let one = |dtype: &DType| (vec![spec("x", *dtype, &[-1, -1])], FirstAxis::Batch);
    let batches = [
        vec![spec("x", Float32, &[-1, 1])],
        vec![spec("x", Float32, &[-1, 4096])],
        vec![spec("x", Int64, &[-1]), spec("s", String, &[-1, 2])],
        vec![spec("inputs", String, &[-1])],
    ];
    let assumed = vec![spec("x", Float32, &[-1, -1]), spec("b", Bool, &[-1])];
    let free = vec![TensorSpec::of_any_rank("x", Float32), spec("b", Bool, &[])];
    let batches = ALL.iter().map(one).chain(batches.map(|inputs| (inputs, FirstAxis::Batch)));
    let all: Vec<_> = batches.chain([(assumed, FirstAxis::Assumed), (free, FirstAxis::Free)]).collect();
    let made = |inputs, output, axis| {
        let method = "tensorflow/serving/predict".to_owned();
        Signature::with_axis("serving_default".to_owned(), method, inputs, vec![spec("y", output, &[-1])], axis)
    };
    let schema = DocumentSchema { request: "{}".to_owned(), response: "{}".to_owned() };
    let documents =
        made(vec![spec("request", String, &[-1])], String, FirstAxis::Batch).and_then(|one| one.with_schema(schema));
    let tensors = all.into_iter().map(move |(inputs, axis)| made(inputs, Float32, axis));
    tensors.chain([documents]).map(|signature| signature.unwrap_or_else(|why| panic!("{why}")))
}

/// Gives memory up to the limit.
#[derive(Default)]
struct Granted(usize);

impl Room for Granted {
    fn take(&mut self, bytes: usize) -> Result<(), Status> {
        if bytes > LIMIT - self.0 {
            return Err(Status::exhausted(format!("{bytes} bytes more would pass the limit of {LIMIT} bytes")));
        }
        self.0 += bytes;
        Ok(())
    }
}

impl Sheet {
    fn new(signature: Signature) -> Sheet {
        let columns = ColumnPool::new(signature.inputs.iter().map(|spec| spec.dtype).collect());
        Sheet { signature, columns }
    }

    /// Lets a decoder fill the columns, within bounds; what it accepts must be as long as it says.
    pub fn fill(&self, input: &[u8], read: impl FnOnce(&Signature, &mut Page<'_>) -> Result<RequestRows, Status>) {
        bounds::within(MEMORY, input, || {
            let (mut columns, mut shapes, mut room) = (self.columns.lease(), Vec::new(), Granted::default());
            let page = &mut Page { columns: &mut columns, shapes: &mut shapes, room: &mut room };
            if let Ok(rows) = read(&self.signature, page) {
                self.check(rows, &columns, &shapes);
            }
            room.0
        });
    }

    fn check(&self, rows: RequestRows, columns: &[Lease], shapes: &[Vec<usize>]) {
        for (index, (column, spec)) in columns.iter().zip(&*self.signature.inputs).enumerate() {
            let sent = shapes.get(index).cloned();
            let inner = if rows.unbatched { sent } else { spec.fixed_inner().or(sent) };
            if let Some(row) = inner.map(|inner| Column::row_extent(spec.dtype, &inner)) {
                let count = if rows.unbatched { 1 } else { rows.rows };
                assert_eq!(column.extent(), count * row, "{}: {rows:?}", spec.name);
            }
        }
    }
}

/// Reads the parts of a message that need no signature, within bounds.
pub fn outer<T>(input: &[u8], parse: impl FnOnce() -> T) -> T {
    let mut parsed = None;
    bounds::within(MEMORY, input, || {
        parsed = Some(parse());
        0
    });
    parsed.unwrap_or_else(|| unreachable!("it was parsed"))
}

#[cfg(test)]
mod tests {
    use tidegate_codec::protobuf::predict::PredictRequest;

    use super::*;

    #[test]
    fn a_column_that_grows_when_it_is_used_again_is_within_the_bound() {
        let sheet = Sheet::new(signatures().find(|one| one.inputs[0].dtype == DType::UInt64).unwrap());
        // A tensor of 63 times so many numbers, of which one is there.
        for times in [93, 96] {
            let shape = [0x12, 8, 0x12, 2, 8, 63, 0x12, 2, 8, times];
            let tensor = [&[8, 23], &shape[..], &[0x8a, 1, 1, 3]].concat();
            let mut request = PredictRequest::default();
            request.push_input(b"x", &tensor).unwrap();
            sheet.fill(&tensor, |signature, page| {
                let rows = request.read_inputs(signature, page, LIMIT);
                assert_eq!(rows.as_ref().map(|rows| rows.rows), Ok(63));
                rows
            });
        }
    }
}
