"""The robustness gate: can a version hurt the server that loads it?

Stages, probes, failing inputs and their replay are here; what isolates a process is in `sandbox`.
"""
