//! One input of a `ModelInfer` request: its shape and type as its client states them, held against the signature, and
//! its values in one of three forms.

use std::borrow::Cow;

use crate::dtype::DType;
use crate::json::scanner::Scanner;
use crate::open_inference::shared_memory::{OpenPlace, Place};
use crate::open_inference::{contents, datatype, json_values, raw};
use crate::signatures::{InputShape, TensorSpec, show_shape};
use crate::status::Status;
use crate::tensors::{Column, Lender, Room};

/// Most dimensions that a tensor may have, as in TensorFlow.
const MAX_RANK: usize = 254;

/// Where an input's values are.
#[derive(Clone, Copy, Debug)]
pub enum InferData<'a> {
    /// Nowhere, so far.
    Missing,
    /// Here, as bytes.
    Raw(&'a [u8]),
    /// Here, in a body that has nothing else: as bytes, or one string without its length.
    Alone(&'a [u8]),
    /// In this `InferTensorContents`.
    Contents(&'a [u8]),
    /// In a list in JSON that begins here.
    Json(Scanner<'a>),
}

/// An input as it came.
#[derive(Debug)]
pub struct InferInput<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its type, in the protocol's words.
    pub datatype: Cow<'a, str>,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its values.
    pub data: InferData<'a>,
    /// Where they are in shared memory.
    pub place: Option<Box<Place>>,
    /// The same, once its region was found.
    pub open: Option<OpenPlace>,
}

impl<'a> InferInput<'a> {
    /// Without values and dimensions.
    pub fn new(name: Cow<'a, str>) -> InferInput<'a> {
        let (datatype, shape, data) = (Cow::Borrowed(""), Vec::new(), InferData::Missing);
        InferInput { name, datatype, shape, data, place: None, open: None }
    }

    /// Adds a dimension.
    pub fn push_dim(&mut self, size: i64) -> Result<(), Status> {
        let name = &self.name;
        if self.shape.len() == MAX_RANK {
            return Err(Status::invalid(format!("input '{name}' has more than {MAX_RANK} dimensions")));
        }
        let known = usize::try_from(size);
        self.shape.push(known.map_err(|_| {
            Status::invalid(format!("input '{name}' has a dimension of size {size}: send the shape of the data"))
        })?);
        Ok(())
    }

    /// Appends its values to the column of its input.
    pub fn read(
        &self,
        spec: &TensorSpec,
        column: &mut Column,
        max_bytes: usize,
        (room, lender): (&mut dyn Room, Lender<'_>),
    ) -> Result<InputShape, Status> {
        self.check_datatype(spec)?;
        let found = self.shape_for(spec).ok_or_else(|| {
            let (sent, want) = (show_shape(&self.shape), spec.show());
            Status::invalid(format!("input '{}' has shape {sent}, but the model expects {want}", spec.name))
        })?;
        let elements = self.elements(spec, max_bytes)?;
        if let (true, Column::Raw(words)) = (self.is_bfloat16(spec), &mut *column) {
            let InferData::Raw(halves) = self.data else {
                let name = &self.name;
                let text = format!("input '{name}' is BF16 and no raw bytes: send it as raw bytes, or as FP32");
                return Err(Status::invalid(text));
            };
            raw::read_bfloat16(halves, &self.name, &self.shape, elements, words, room)?;
            return Ok(found);
        }
        if let Some(open) = &self.open {
            if open.place.size > max_bytes as u64 {
                let (name, size) = (&self.name, open.place.size);
                return Err(Status::exhausted(format!(
                    "input '{name}' of {size} bytes in shared memory is more than the limit of {max_bytes} bytes"
                )));
            }
            raw::read_shared(open, spec, &self.shape, elements, column, room)?;
            return Ok(found);
        }
        match (self.data, column) {
            (InferData::Alone(string), Column::Strings(strings)) => {
                room.take(string.len())?;
                strings.push(string);
            }
            (InferData::Raw(bytes) | InferData::Alone(bytes), column) => {
                raw::read(bytes, spec, &self.shape, elements, column, (room, lender))?;
            }
            (InferData::Contents(contents), column) => contents::read(contents, spec, elements, column, room)?,
            (InferData::Json(values), column) => json_values::read(values, spec, &self.shape, elements, column, room)?,
            (InferData::Missing, _) if elements == 0 => {}
            (InferData::Missing, _) => return Err(Status::invalid(format!("input '{}' has no data", spec.name))),
        }
        Ok(found)
    }

    /// Its shape, if it fits. A column is as good as a list of its values: MLServer's codecs send every list as a column.
    fn shape_for(&self, spec: &TensorSpec) -> Option<InputShape> {
        let as_list = || match self.shape[..] {
            [rows, 1] => InputShape::of_shape(spec, &[rows]),
            _ => None,
        };
        InputShape::of_shape(spec, &self.shape).or_else(as_list)
    }

    /// Whether its values are bfloat16 where floats are asked for: each is a float without its lower half.
    fn is_bfloat16(&self, spec: &TensorSpec) -> bool {
        spec.dtype == DType::Float32 && self.datatype == datatype::BFLOAT16
    }

    fn check_datatype(&self, spec: &TensorSpec) -> Result<(), Status> {
        if self.is_bfloat16(spec) {
            return Ok(());
        }
        let (name, sent, want) = (&spec.name, &self.datatype, datatype::name(spec.dtype));
        match datatype::from_name(sent) {
            Some(dtype) if dtype == spec.dtype => Ok(()),
            Some(_) => Err(Status::invalid(format!(
                "input '{name}' has datatype {sent}, but the model expects {want}: send it as {want}"
            ))),
            None => Err(Status::invalid(format!(
                "input '{name}' has datatype '{sent}': send {want} (the protocol has {})",
                datatype::all()
            ))),
        }
    }

    /// How many values the shape stands for, which must not take more than a message may.
    fn elements(&self, spec: &TensorSpec, max_bytes: usize) -> Result<usize, Status> {
        let size = if spec.dtype == DType::String { size_of::<u64>() } else { spec.dtype.size() };
        let elements = self.shape.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim));
        elements.filter(|count| count.checked_mul(size).is_some_and(|bytes| bytes <= max_bytes)).ok_or_else(|| {
            Status::exhausted(format!(
                "input '{}' of shape {} would take more than the limit of {max_bytes} bytes",
                spec.name,
                show_shape(&self.shape)
            ))
        })
    }
}
