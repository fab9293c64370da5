"""Models that are a Python class in a file of the version."""
