"""Metrics of the quality gate by task, gains of one version over another, and how far predictions moved."""
