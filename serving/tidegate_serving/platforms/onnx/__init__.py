"""ONNX graphs, run by onnxruntime."""
