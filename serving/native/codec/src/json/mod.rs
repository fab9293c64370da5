//! JSON: a scanner without a tree, and the bodies of TensorFlow Serving's REST requests and answers.

pub mod document;
pub mod examples;
pub mod explain;
pub mod inference_response;
pub mod metadata;
pub mod model_status;
mod nearest;
pub mod number;
pub mod plain_object;
pub mod predict_request;
pub mod predict_response;
pub mod rows;
pub mod scalar;
pub mod scanner;
pub mod text;
