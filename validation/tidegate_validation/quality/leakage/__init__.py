"""Leakage: whether a candidate is better than a model can honestly be, and which input gives the label away."""
