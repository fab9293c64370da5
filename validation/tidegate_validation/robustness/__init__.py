"""The robustness gate: can a version hurt the server that loads it? Importing this does no work."""
