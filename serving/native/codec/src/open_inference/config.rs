//! A model's configuration in Triton's form, which its clients read before they make requests (`ModelConfig`).

use crate::dtype::DType;
use crate::json::text::{write_list, write_text};
use crate::open_inference::metadata::{SERVER, shape_of};
use crate::protobuf::wire;
use crate::signatures::{FirstAxis, Signature, TensorSpec};

/// What Triton's clients ask for: how a model is called, and how many rows at once.
#[derive(Debug)]
pub struct ModelConfig<'a> {
    name: &'a str,
    /// Zero where the tensors' first axis is not one of rows; then it belongs to their dimensions.
    max_batch_rows: usize,
    signature: &'a Signature,
}

impl ModelConfig<'_> {
    /// Of a signature, whose batches have at most so many rows.
    pub fn new<'a>(name: &'a str, max_batch_rows: usize, signature: &'a Signature) -> ModelConfig<'a> {
        // Triton has no tensor that is nothing but an axis of rows.
        let of_rows = |spec: &TensorSpec| spec.shape.len() > 1 && spec.shape[0] == -1;
        let batched = signature.first_axis != FirstAxis::Free
            && signature.inputs.iter().chain(signature.outputs.iter()).all(of_rows);
        ModelConfig { name, max_batch_rows: if batched { max_batch_rows } else { 0 }, signature }
    }

    /// The dimensions without the rows, which Triton's form leaves out.
    fn dims<'s>(&self, spec: &'s TensorSpec) -> &'s [i64] {
        if self.max_batch_rows > 0 { spec.inner() } else { shape_of(spec) }
    }

    /// `ModelConfigResponse`.
    pub fn message(&self) -> Vec<u8> {
        let mut config = Vec::new();
        wire::put_bytes(&mut config, 1, self.name.as_bytes());
        wire::put_bytes(&mut config, 2, SERVER.as_bytes());
        if self.max_batch_rows > 0 {
            wire::put_uint(&mut config, 4, self.max_batch_rows as u64);
        }
        let outputs = self.signature.outputs.iter().collect();
        for (field, dims_field, specs) in [(5, 4, self.signature.asked_inputs()), (6, 3, outputs)] {
            for spec in specs {
                let mut tensor = Vec::new();
                wire::put_bytes(&mut tensor, 1, spec.name.as_bytes());
                wire::put_uint(&mut tensor, 2, data_type(spec.dtype).0);
                let mut dims = Vec::new();
                self.dims(spec).iter().for_each(|size| wire::put_varint(&mut dims, *size as u64));
                wire::put_bytes(&mut tensor, dims_field, &dims);
                wire::put_bytes(&mut config, field, &tensor);
            }
        }
        if self.signature.sequences {
            let mut batching = Vec::new();
            wire::put_bytes(&mut batching, 3, &[]);
            wire::put_bytes(&mut config, 13, &batching);
        }
        wire::put_bytes(&mut config, 17, SERVER.as_bytes());
        if self.signature.streaming {
            let mut policy = Vec::new();
            wire::put_uint(&mut policy, 1, 1);
            wire::put_bytes(&mut config, 19, &policy);
        }
        let mut out = Vec::new();
        wire::put_bytes(&mut out, 1, &config);
        out
    }

    /// The same as JSON.
    pub fn json(&self) -> Vec<u8> {
        let mut out = b"{\"name\":".to_vec();
        write_text(&mut out, self.name);
        let rows = self.max_batch_rows;
        out.extend_from_slice(
            format!(",\"platform\":\"{SERVER}\",\"backend\":\"{SERVER}\",\"max_batch_size\":{rows}").as_bytes(),
        );
        let outputs = self.signature.outputs.iter().collect();
        for (key, specs) in [("input", self.signature.asked_inputs()), ("output", outputs)] {
            out.extend_from_slice(format!(",\"{key}\":").as_bytes());
            write_list(&mut out, specs.len(), |out, index| {
                let spec = specs[index];
                out.extend_from_slice(b"{\"name\":");
                write_text(out, &spec.name);
                let (kind, dims) = (data_type(spec.dtype).1, self.dims(spec));
                out.extend_from_slice(format!(",\"data_type\":\"TYPE_{kind}\",\"dims\":").as_bytes());
                write_list(out, dims.len(), |out, at| out.extend_from_slice(dims[at].to_string().as_bytes()));
                out.push(b'}');
            });
        }
        if self.signature.sequences {
            out.extend_from_slice(b",\"sequence_batching\":{\"direct\":{}}");
        }
        if self.signature.streaming {
            out.extend_from_slice(b",\"model_transaction_policy\":{\"decoupled\":true}");
        }
        out.push(b'}');
        out
    }
}

/// Number and name in Triton's `DataType`, whose numbers are in another order than ours.
fn data_type(dtype: DType) -> (u64, &'static str) {
    match dtype {
        DType::Bool => (1, "BOOL"),
        DType::UInt8 => (2, "UINT8"),
        DType::UInt16 => (3, "UINT16"),
        DType::UInt32 => (4, "UINT32"),
        DType::UInt64 => (5, "UINT64"),
        DType::Int8 => (6, "INT8"),
        DType::Int16 => (7, "INT16"),
        DType::Int32 => (8, "INT32"),
        DType::Int64 => (9, "INT64"),
        DType::Float16 => (10, "FP16"),
        DType::Float32 => (11, "FP32"),
        DType::Float64 => (12, "FP64"),
        DType::String => (13, "STRING"),
        DType::Complex64 | DType::Complex128 => (0, "INVALID"),
    }
}
