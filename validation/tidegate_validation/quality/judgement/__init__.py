"""Outcomes of the quality gate: metrics and their margins, a policy's thresholds, changed predictions, history."""
