"""TensorFlow Serving's own command line and files, translated into an engine's config."""
