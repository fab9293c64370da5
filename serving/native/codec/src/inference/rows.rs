//! One request's rows of the outputs that answer Classify, Regress or a MultiInference task, checked for their shapes.

use half::f16;

use crate::dtype::DType;
use crate::signatures::show_shape;
use crate::status::Status;
use crate::tensors::{Column, Slice};

/// A request's rows of the outputs that answer it.
pub enum Inference<'a> {
    /// Per row as many labels, scores or both as there are classes.
    Classes {
        /// Strings.
        classes: Option<Slice<'a>>,
        /// Floats.
        scores: Option<Slice<'a>>,
        /// Classes per row.
        count: usize,
    },
    /// One number per row.
    Regression(Slice<'a>),
}

impl<'a> Inference<'a> {
    /// Rows of classes; both outputs must have the same number of them, and a row for each example.
    pub fn classes(
        classes: Option<Slice<'a>>,
        scores: Option<Slice<'a>>,
        examples: usize,
    ) -> Result<Inference<'a>, Status> {
        let classes = classes.map(|slice| by_example(slice, "classes", examples)).transpose()?;
        let scores = scores.map(|slice| by_example(slice, "scores", examples)).transpose()?;
        let width = |slice: &Slice<'_>| slice.inner.first().copied().unwrap_or(1);
        let (labels, numbers) = (classes.as_ref().map(width), scores.as_ref().map(width));
        match (labels, numbers) {
            (Some(labels), Some(numbers)) if labels != numbers => Err(Status::invalid(format!(
                "Tensors class and score should match in dim_size(1). Got {labels} vs. {numbers}"
            ))),
            _ => Ok(Inference::Classes { classes, scores, count: labels.or(numbers).unwrap_or(0) }),
        }
    }

    /// Rows of one number, one for each example.
    pub fn regression(slice: Slice<'a>, examples: usize) -> Result<Inference<'a>, Status> {
        let rows = slice.by_row().filter(|slice| matches!(slice.inner, [] | [1]));
        let Some(slice) = rows else {
            let got = show(&slice);
            return Err(Status::invalid(format!(
                "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got {got}"
            )));
        };
        if slice.rows != examples {
            let got = slice.rows;
            return Err(Status::invalid(format!(
                "Input batch size did not match output batch size: {examples} vs. {got}"
            )));
        }
        Ok(Inference::Regression(slice))
    }

    /// Their number.
    pub fn rows(&self) -> usize {
        match self {
            Inference::Classes { classes, scores, .. } => {
                classes.as_ref().or(scores.as_ref()).map_or(0, |slice| slice.rows)
            }
            Inference::Regression(slice) => slice.rows,
        }
    }
}

/// One output of classes as a row of them for each example.
fn by_example<'a>(slice: Slice<'a>, name: &str, examples: usize) -> Result<Slice<'a>, Status> {
    match slice.by_row().filter(|slice| slice.inner.len() == 1) {
        None => {
            let got = show(&slice);
            Err(Status::invalid(format!("Expected Tensor shape: [batch_size num_classes] but got {got}")))
        }
        Some(rows) if rows.rows != examples => {
            let got = rows.rows;
            Err(Status::invalid(format!("Expected {name} output batch size of {examples}. Got: {got}")))
        }
        Some(rows) => Ok(rows),
    }
}

fn show(slice: &Slice<'_>) -> String {
    show_shape(&slice.dims().collect::<Vec<_>>())
}

/// Element `at` of a request's rows.
pub fn string_at<'a>(slice: &Slice<'a>, at: usize) -> &'a [u8] {
    let first = slice.first * Column::row_extent(slice.dtype, slice.inner);
    match slice.column {
        Column::Strings(strings) => strings.get(first + at),
        Column::Raw(_) => &[],
    }
}

/// Element `at` of a request's rows, in single precision.
pub fn float_at(slice: &Slice<'_>, at: usize) -> f32 {
    let size = slice.dtype.size();
    let mut wide = [0u8; 8];
    wide[..size].copy_from_slice(&slice.raw()[at * size..(at + 1) * size]);
    let bits = u64::from_le_bytes(wide);
    match slice.dtype {
        DType::Float16 => f16::from_bits(bits as u16).to_f32(),
        DType::Float64 => f64::from_bits(bits) as f32,
        _ => f32::from_bits(bits as u32),
    }
}
