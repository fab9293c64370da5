"""Sources of our messages and the descriptor set made from them and from TensorFlow Serving."""
