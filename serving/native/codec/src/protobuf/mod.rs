//! Protocol buffers: the wire format, and the messages of TensorFlow and TensorFlow Serving that we speak.

pub mod example_features;
pub mod examples;
pub mod frame;
pub mod inference_response;
pub mod metadata;
pub mod model_spec;
pub mod model_status;
pub mod multi_inference;
pub mod predict;
pub mod prediction_log;
pub mod session_run;
pub mod signature_defs;
pub mod string_list;
pub mod tensor;
pub mod wire;
