"""TensorFlow SavedModels, each in a session of its own."""
