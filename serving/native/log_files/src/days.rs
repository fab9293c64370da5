//! The day that a row belongs to: that of its event, where its version says which input holds the time, or of its arrival.

use std::collections::BTreeMap;
use std::ops::Range;

use bytemuck::cast_slice;
use chrono::DateTime;
use half::f16;
use tidegate_codec::dtype::DType;
use tidegate_codec::tensors::Column;
use tidegate_engine::log::LogBlock;

pub(crate) const DAY_US: i64 = 86_400_000_000;
/// The second day of year 1 and the day before the last of year 9999: what every reader knows as a date.
const EARLIEST: f64 = -62_135_510_400.0;
const LATEST: f64 = 253_402_128_000.0;

/// Unix microseconds by row, none where an event has no usable time; empty where no row has.
pub(crate) fn event_times(block: &LogBlock) -> Vec<Option<i64>> {
    let signature = &block.served.signature;
    let Some(index) = signature.event_time else { return Vec::new() };
    let Column::Raw(words) = &block.inputs[index].values else { return Vec::new() };
    let bytes = words.as_bytes();
    macro_rules! seconds {
        ($kind:ty) => {
            seconds!($kind, f64::from)
        };
        ($kind:ty, $to_float:expr) => {
            cast_slice::<u8, $kind>(bytes).iter().map(|value| microseconds($to_float(*value))).collect()
        };
    }
    match signature.inputs[index].dtype {
        DType::Int8 => seconds!(i8),
        DType::Int16 => seconds!(i16),
        DType::Int32 => seconds!(i32),
        DType::Int64 => seconds!(i64, |whole| whole as f64),
        DType::UInt8 => seconds!(u8),
        DType::UInt16 => seconds!(u16),
        DType::UInt32 => seconds!(u32),
        DType::UInt64 => seconds!(u64, |whole| whole as f64),
        DType::Float32 => seconds!(f32),
        DType::Float64 => seconds!(f64),
        DType::Float16 => {
            let halves = bytes.chunks_exact(2).map(|half| f16::from_le_bytes([half[0], half[1]]));
            halves.map(|half| microseconds(half.to_f64())).collect()
        }
        DType::Bool | DType::String | DType::Complex64 | DType::Complex128 => Vec::new(),
    }
}

fn microseconds(seconds: f64) -> Option<i64> {
    let usable = seconds > EARLIEST && seconds < LATEST;
    usable.then(|| (seconds * 1e6).round_ties_even() as i64)
}

/// The block's rows by day, as ranges of rows that follow each other.
pub(crate) fn by_day(block: &LogBlock, events: &[Option<i64>]) -> BTreeMap<i64, Vec<Range<usize>>> {
    let mut days: BTreeMap<i64, Vec<Range<usize>>> = BTreeMap::new();
    let day = |row: usize| events.get(row).copied().flatten().unwrap_or(block.received_at_us[row]).div_euclid(DAY_US);
    let mut start = 0;
    while start < block.rows {
        let first = day(start);
        let end = (start + 1..block.rows).find(|row| day(*row) != first).unwrap_or(block.rows);
        days.entry(first).or_default().push(start..end);
        start = end;
    }
    days
}

/// A day's folder, such as `date=2026-03-01`.
pub(crate) fn folder(day: i64) -> String {
    let date = DateTime::from_timestamp_micros(day * DAY_US).unwrap_or_default().date_naive();
    format!("date={date}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_the_names_that_python_gives_them() {
        assert_eq!(
            [0, -1, 20_513, 15_857].map(folder),
            ["date=1970-01-01", "date=1969-12-31", "date=2026-03-01", "date=2013-06-01"]
        );
        assert_eq!(
            microseconds(EARLIEST + 1.0).map(|us| folder(us.div_euclid(DAY_US))),
            Some("date=0001-01-02".to_owned())
        );
        assert_eq!(
            microseconds(LATEST - 1.0).map(|us| folder(us.div_euclid(DAY_US))),
            Some("date=9999-12-29".to_owned())
        );
        assert_eq!([f64::NAN, f64::INFINITY, -1e300, LATEST].map(microseconds), [None; 4]);
    }
}
