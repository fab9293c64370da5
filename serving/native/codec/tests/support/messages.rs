//! Makes and reads the protobuf messages that tests send and get, field by field.
//! Independent of the endpoint's own writers wherever it reads.

use tidegate_codec::dtype::DType;
use tidegate_codec::protobuf::wire::{self, Field, Reader, Value};

/// A `TensorProto` with some value field already encoded.
pub fn tensor(dtype: u64, shape: &[i64], fields: &[u8]) -> Vec<u8> {
    let mut dims = Vec::new();
    for size in shape {
        let mut dim = Vec::new();
        wire::put_uint(&mut dim, 1, *size as u64);
        wire::put_bytes(&mut dims, 2, &dim);
    }
    let mut out = Vec::new();
    wire::put_uint(&mut out, 1, dtype);
    wire::put_bytes(&mut out, 2, &dims);
    out.extend_from_slice(fields);
    out
}

pub fn content(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    wire::put_bytes(&mut out, 4, bytes);
    out
}

/// A packed varint field.
pub fn varints(number: u32, values: &[i64]) -> Vec<u8> {
    let mut packed = Vec::new();
    values.iter().for_each(|value| wire::put_varint(&mut packed, *value as u64));
    let mut out = Vec::new();
    wire::put_bytes(&mut out, number, &packed);
    out
}

pub fn float_tensor(values: &[f32]) -> Vec<u8> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(DType::Float32.tensorflow(), &[values.len() as i64], &content(&bytes))
}

pub struct Request {
    pub spec: Vec<u8>,
    pub inputs: Vec<(String, Vec<u8>)>,
    pub filter: Vec<String>,
}

impl Request {
    pub fn new(model: &str) -> Request {
        let mut spec = Vec::new();
        wire::put_bytes(&mut spec, 1, model.as_bytes());
        Request { spec, inputs: Vec::new(), filter: Vec::new() }
    }

    pub fn version(mut self, version: i64) -> Request {
        let mut wrapped = Vec::new();
        wire::put_uint(&mut wrapped, 1, version as u64);
        wire::put_bytes(&mut self.spec, 2, &wrapped);
        self
    }

    pub fn label(mut self, label: &str) -> Request {
        wire::put_bytes(&mut self.spec, 4, label.as_bytes());
        self
    }

    pub fn signature(mut self, name: &str) -> Request {
        wire::put_bytes(&mut self.spec, 3, name.as_bytes());
        self
    }

    pub fn input(mut self, name: &str, tensor: Vec<u8>) -> Request {
        self.inputs.push((name.to_owned(), tensor));
        self
    }

    pub fn only(mut self, output: &str) -> Request {
        self.filter.push(output.to_owned());
        self
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        wire::put_bytes(&mut out, 1, &self.spec);
        for (name, tensor) in &self.inputs {
            let mut entry = Vec::new();
            wire::put_bytes(&mut entry, 1, name.as_bytes());
            wire::put_bytes(&mut entry, 2, tensor);
            wire::put_bytes(&mut out, 2, &entry);
        }
        self.filter.iter().for_each(|name| wire::put_bytes(&mut out, 3, name.as_bytes()));
        out
    }
}

pub fn predict_x(values: &[f32]) -> Vec<u8> {
    Request::new("m").input("x", float_tensor(values)).encode()
}

pub fn fields(message: &[u8]) -> Vec<Field<'_>> {
    let mut reader = Reader::new(message);
    let mut all = Vec::new();
    while let Some(field) = reader.next_field().unwrap() {
        all.push(field);
    }
    all
}

pub fn bytes_of(message: &[u8], number: u32) -> Vec<&[u8]> {
    let all = fields(message).into_iter().filter(|field| field.number == number);
    all.map(|field| match field.value {
        Value::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    })
    .collect()
}

pub fn varint_of(message: &[u8], number: u32) -> u64 {
    let found = fields(message).into_iter().rfind(|field| field.number == number);
    found.map_or(0, |field| field.varint("test").unwrap())
}

/// Outputs of a `PredictResponse` by name, as `TensorProto` bytes.
pub fn outputs(response: &[u8]) -> Vec<(String, Vec<u8>)> {
    let entries = bytes_of(response, 1).into_iter();
    entries.map(|entry| (text(bytes_of(entry, 1)[0]), bytes_of(entry, 2)[0].to_vec())).collect()
}

/// Version and signature name that a response's `model_spec` gives.
pub fn answered_by(response: &[u8]) -> (i64, String) {
    let spec = bytes_of(response, 2)[0];
    (varint_of(bytes_of(spec, 2)[0], 1) as i64, text(bytes_of(spec, 3)[0]))
}

/// The packed floats of a tensor.
pub fn float_values(tensor: &[u8]) -> Vec<f32> {
    bytes_of(tensor, 5).concat().chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

pub fn shape_of(tensor: &[u8]) -> Vec<i64> {
    bytes_of(bytes_of(tensor, 2)[0], 2).iter().map(|dim| varint_of(dim, 1) as i64).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
