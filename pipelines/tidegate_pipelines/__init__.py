"""Whole pipelines over the steps, the release and the skew loop, and the command line."""
