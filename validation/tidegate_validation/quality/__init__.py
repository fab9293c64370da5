"""The quality gate: the candidate against the version that serves now, on the same examples.

`gate` asks both models, `data` holds what is compared, `metrics` measures, `slices` and `leakage` look where a mean
does not show a fault, and `judgement` turns numbers into findings.
"""

from tidegate_validation.quality.rule import QualityRule

__all__ = ["QualityRule"]
