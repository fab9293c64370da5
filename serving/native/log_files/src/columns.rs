//! Writes the columns of some rows of a block into a row group, from the block's own memory as far as types allow.

use std::io::Write;
use std::ops::Range;

use bytemuck::cast_slice;
use bytes::Bytes;
use half::f16;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::{SerializedColumnWriter, SerializedRowGroupWriter};
use tidegate_codec::dtype::DType;
use tidegate_codec::signatures::TensorSpec;
use tidegate_codec::tensors::{Column, Strings};
use tidegate_engine::log::{LogBlock, Logged, Turns};
use tidegate_engine::trace_context::{TraceId, to_hex};

use crate::levels::Levels;
use crate::rules::{ColumnRules, Rule};
use crate::schema::{META, depth, input_name, output_name};
use crate::text::{all_text, escaped};

/// What is encoded at once, so that levels and converted elements take little memory beside a large column.
const PIECE: usize = 1 << 14;
/// The same where no levels go with it: what was converted is still in the processor's cache when it is encoded.
const CONVERTED: usize = 1 << 10;
/// While so many bytes of a model wait, its log is written without pauses.
const MUCH: usize = 32 << 20;
const ROLES: [&str; 2] = ["primary", "shadow"];

/// Writes all columns of these rows; `events` is the time of each row's event, empty where no row has one.
pub(crate) fn write<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    block: &LogBlock,
    events: &[Option<i64>],
    rows: &[Range<usize>],
    rules: &ColumnRules,
) -> Result<()> {
    let (turns, behind) = (Turns::default(), || block.served.log.used() > MUCH);
    let give_way = || {
        turns.give_way(behind);
    };
    for name in META {
        give_way();
        column(group, |writer| rows.iter().try_for_each(|rows| meta(writer, name, block, events, rows.clone())))?;
    }
    let signature = &block.served.signature;
    let inputs =
        signature.inputs.iter().zip(&block.inputs).map(|(spec, logged)| (input_name(spec), spec, logged, false));
    let outputs =
        signature.outputs.iter().zip(&block.outputs).map(|(spec, logged)| (output_name(spec), spec, logged, true));
    for (name, spec, logged, optional) in inputs.chain(outputs) {
        match rules.of(&name) {
            Rule::Plain => column(group, |writer| tensor(writer, spec, logged, optional, rows, &give_way))?,
            Rule::Hash => {
                let values = Column::Strings(rules.hashed(spec.dtype, &logged.values));
                let hashed = Logged { values, shapes: logged.shapes.clone() };
                column(group, |writer| tensor(writer, spec, &hashed, optional, rows, &give_way))?;
            }
            Rule::Omit => {}
        }
    }
    Ok(())
}

fn column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    write: impl FnOnce(&mut SerializedColumnWriter<'_>) -> Result<()>,
) -> Result<()> {
    let mut writer =
        group.next_column()?.ok_or_else(|| ParquetError::General("the schema has fewer columns".to_owned()))?;
    write(&mut writer)?;
    writer.close()
}

/// One of the columns that every log has.
fn meta(
    writer: &mut SerializedColumnWriter<'_>,
    name: &str,
    block: &LogBlock,
    events: &[Option<i64>],
    rows: Range<usize>,
) -> Result<()> {
    match name {
        // Visible ASCII, as `RequestId` checks.
        "request_id" => strings(writer, &block.request_id, true, rows, None),
        "trace_id" => block.trace_id[rows].chunks(PIECE).try_for_each(|traces| {
            let known: Vec<TraceId> = traces.iter().copied().flatten().collect();
            let definition: Vec<i16> = traces.iter().map(|trace| i16::from(trace.is_some())).collect();
            let hex = |trace: &TraceId| ByteArray::from(to_hex(trace).as_str());
            converted::<ByteArrayType, _>(writer, &known, Some((&definition, &[])), hex)
        }),
        "row" => plain::<Int32Type>(writer, cast_slice(&block.row[rows]), None),
        "role" => {
            let roles = ROLES.map(|role| ByteArray::from(Bytes::from_static(role.as_bytes())));
            converted::<ByteArrayType, _>(writer, &block.role[rows], None, |role| roles[usize::from(*role)].clone())
        }
        "status" => converted::<Int32Type, _>(writer, &block.status[rows], None, |status| i32::from(*status)),
        "signature" => {
            let signature = ByteArray::from(block.served.signature.name.as_str());
            converted::<ByteArrayType, _>(writer, &block.status[rows], None, |_| signature.clone())
        }
        "received_at" => plain::<Int64Type>(writer, &block.received_at_us[rows], None),
        "latency_us" => plain::<Int64Type>(writer, &block.latency_us[rows], None),
        "event_time" => {
            let times: Vec<i64> = events.iter().take(rows.end).skip(rows.start).filter_map(|time| *time).collect();
            let known = |row| i16::from(events.get(row).copied().flatten().is_some());
            let definition: Vec<i16> = rows.map(known).collect();
            plain::<Int64Type>(writer, &times, Some((&definition, &[])))
        }
        _ => unreachable!("{name} is no column of every log"),
    }
}

/// Definition and repetition levels; empty repetition levels are those of no list.
type BothLevels<'a> = Option<(&'a [i16], &'a [i16])>;

/// One input or output.
fn tensor(
    writer: &mut SerializedColumnWriter<'_>,
    spec: &TensorSpec,
    logged: &Logged,
    optional: bool,
    rows: &[Range<usize>],
    give_way: &dyn Fn(),
) -> Result<()> {
    let depth = depth(spec);
    let text = matches!(&logged.values, Column::Strings(values) if all_text(values));
    let mut piece = Piece { levels: Levels::new(optional), elements: 0..0 };
    let put = |writer: &mut SerializedColumnWriter<'_>, piece: &mut Piece| {
        give_way();
        let (definition, repetition) = piece.levels.both();
        let levels = (optional || depth > 0).then_some((definition, if depth > 0 { repetition } else { &[] }));
        match &logged.values {
            Column::Strings(values) => strings(writer, values, text, piece.elements.clone(), levels)?,
            Column::Raw(words) => numbers(writer, spec.dtype, words.as_bytes(), piece.elements.clone(), levels)?,
        }
        piece.levels.clear();
        piece.elements.start = piece.elements.end;
        Ok::<_, ParquetError>(())
    };
    for rows in rows {
        let (mut start, mut before) = (0, 0);
        for (end, inner) in logged.shapes.runs() {
            let parts = inner.filter(|_| spec.dtype.is_complex()).map(|inner| [inner, &[2]].concat());
            let inner = parts.as_deref().or(inner);
            if let Some(inner) = inner.filter(|inner| inner.len() != depth) {
                let name = &spec.name;
                return Err(ParquetError::General(format!("rows of '{name}' have {inner:?}, not {depth} dimensions")));
            }
            let size = inner.map_or(0, |inner| inner.iter().product());
            let chosen = start.max(rows.start)..end.min(rows.end);
            let mut at = chosen.start;
            while at < chosen.end {
                let first = before + (at - start) * size;
                if first != piece.elements.end {
                    put(writer, &mut piece)?;
                    piece.elements = first..first;
                }
                let count = (PIECE / size.max(1)).clamp(1, chosen.end - at);
                piece.levels.push(count, inner);
                piece.elements.end += count * size;
                at += count;
                if piece.levels.len() >= PIECE {
                    put(writer, &mut piece)?;
                }
            }
            before += (end - start) * size;
            start = end;
        }
    }
    put(writer, &mut piece)
}

/// Elements that follow each other in a column, and the levels of their rows.
struct Piece {
    levels: Levels,
    elements: Range<usize>,
}

fn numbers(
    writer: &mut SerializedColumnWriter<'_>,
    dtype: DType,
    words: &[u8],
    range: Range<usize>,
    levels: BothLevels<'_>,
) -> Result<()> {
    macro_rules! as_they_are {
        ($stored:ty, $kind:ty) => {
            plain::<$stored>(writer, &cast_slice::<u8, $kind>(words)[range], levels)
        };
    }
    macro_rules! widened {
        ($kind:ty) => {
            converted::<Int32Type, $kind>(writer, &cast_slice(words)[range], levels, |value| i32::from(*value))
        };
    }
    match dtype {
        DType::Float32 | DType::Complex64 => as_they_are!(FloatType, f32),
        DType::Float64 | DType::Complex128 => as_they_are!(DoubleType, f64),
        DType::Int32 | DType::UInt32 => as_they_are!(Int32Type, i32),
        DType::Int64 | DType::UInt64 => as_they_are!(Int64Type, i64),
        DType::Int8 => widened!(i8),
        DType::Int16 => widened!(i16),
        DType::UInt8 => widened!(u8),
        DType::UInt16 => widened!(u16),
        DType::Bool => converted::<BoolType, u8>(writer, &words[range], levels, |value| *value != 0),
        DType::Float16 => converted::<FloatType, u16>(writer, &cast_slice(words)[range], levels, |value| {
            f16::from_bits(*value).to_f32()
        }),
        DType::String => unreachable!("strings are a column of their own kind"),
    }
}

/// Strings that are all `text`, or are to be made such.
fn strings(
    writer: &mut SerializedColumnWriter<'_>,
    values: &Strings,
    text: bool,
    range: Range<usize>,
    levels: BothLevels<'_>,
) -> Result<()> {
    let offsets = &values.offsets()[range.start..=range.end];
    let whole = Bytes::copy_from_slice(&values.bytes()[offsets[0] as usize..offsets[range.len()] as usize]);
    converted::<ByteArrayType, _>(writer, &Vec::from_iter(range), levels, |index| match text {
        true => {
            let [start, end] = [*index, *index + 1].map(|at| (values.offsets()[at] - offsets[0]) as usize);
            ByteArray::from(whole.slice(start..end))
        }
        false => ByteArray::from(escaped(values.get(*index)).as_str()),
    })
}

/// Writes elements that are made of others, all at once where levels come with them.
fn converted<T: DataType, F>(
    writer: &mut SerializedColumnWriter<'_>,
    values: &[F],
    levels: BothLevels<'_>,
    convert: impl Fn(&F) -> T::T,
) -> Result<()> {
    let size = if levels.is_some() { values.len().max(1) } else { CONVERTED };
    let mut made = Vec::with_capacity(size.min(values.len()));
    if values.is_empty() {
        return plain::<T>(writer, &made, levels);
    }
    for piece in values.chunks(size) {
        made.clear();
        made.extend(piece.iter().map(&convert));
        plain::<T>(writer, &made, levels)?;
    }
    Ok(())
}

fn plain<T: DataType>(writer: &mut SerializedColumnWriter<'_>, values: &[T::T], levels: BothLevels<'_>) -> Result<()> {
    let (definition, repetition) = levels.unzip();
    let repetition = repetition.filter(|levels| !levels.is_empty());
    if values.is_empty() && definition.is_none_or(<[i16]>::is_empty) {
        return Ok(());
    }
    writer.typed::<T>().write_batch(values, definition, repetition)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::{Arc, Weak};

    use http::HeaderValue;
    use parquet::file::writer::SerializedFileWriter;
    use tidegate_codec::signatures::Signature;
    use tidegate_codec::tensors::Words;
    use tidegate_engine::batching::{ExecutorPool, ServedSignature, ThreadStarter, Unanswered};
    use tidegate_engine::memory::Memory;

    use super::*;
    use crate::schema::{properties, schema};

    const ROWS: usize = 4096;
    const WIDTH: usize = 512;
    /// A turn is half a millisecond, and no computer encodes eight megabytes in four of them.
    const LEAST_PAUSES: u64 = 4;

    struct Nobody;

    impl ThreadStarter for Nobody {
        fn start_thread(&self) {}
    }

    /// Rows of numbers that nobody has an answer to.
    fn block() -> LogBlock {
        let spec = |name, shape: &[i64]| vec![TensorSpec::new(name, DType::Float32, shape)];
        let inputs = spec("x", &[-1, WIDTH as i64]);
        let signature = Signature::new("s".to_owned(), String::new(), inputs, spec("y", &[-1])).unwrap();
        let memory = Arc::new(Memory::new(1 << 30, 1 << 20));
        let nobody: Weak<Nobody> = Weak::new();
        let mut block = LogBlock::new(Arc::new(ServedSignature {
            model: "m".into(),
            version: 1,
            version_header: HeaderValue::from(1),
            unanswered: Unanswered::new(memory.of_model("m"), &signature.outputs, Arc::new(ExecutorPool::new(nobody))),
            signature,
            memory: memory.of_model("m"),
            log: memory.of_log("m"),
            metrics: Arc::default(),
            times: Arc::default(),
        }));
        let mut words = Words::default();
        words.push(&vec![1; 4 * ROWS * WIDTH]);
        block.inputs[0].values = Column::Raw(words);
        block.inputs[0].shapes.push(ROWS, Some(&[WIDTH]));
        block.outputs[0].shapes.push(ROWS, None);
        (0..ROWS).for_each(|_| block.request_id.push(b"id"));
        block.trace_id = vec![None; ROWS];
        block.row = vec![0; ROWS];
        (block.role, block.status) = (vec![0; ROWS], vec![13; ROWS]);
        (block.received_at_us, block.latency_us) = (vec![0; ROWS], vec![0; ROWS]);
        block.rows = ROWS;
        block
    }

    /// How often this thread has given its processor up.
    fn pauses() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap();
        line.split_whitespace().last().unwrap().parse().unwrap()
    }

    #[test]
    fn others_have_the_processor_between_the_pieces_of_a_large_block() {
        let (block, rules) = (block(), ColumnRules::new(HashMap::new(), b""));
        let signature = &block.served.signature;
        let (schema, properties) = (schema(signature, &rules).unwrap(), Arc::new(properties(signature, &rules)));
        let mut file = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
        let mut group = file.next_row_group().unwrap();
        let before = pauses();
        write(&mut group, &block, &[], std::slice::from_ref(&(0..ROWS)), &rules).unwrap();
        let paused = pauses() - before;
        group.close().unwrap();
        assert!(paused >= LEAST_PAUSES, "{paused} pauses");
    }
}
