"""Whole pipelines over the steps: the release, the skew loop, the flights example and the command line."""
