"""Whether a version may serve: verdicts, keys, overrides of verdicts, and what was admitted."""
