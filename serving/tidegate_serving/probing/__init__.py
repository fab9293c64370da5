"""What `python -m tidegate_serving.probe` is made of: a version in a process of its own, asked as the engine would."""
