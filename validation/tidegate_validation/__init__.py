"""The gates: data expectations, quality, robustness and skew, and the one decision over their findings."""
