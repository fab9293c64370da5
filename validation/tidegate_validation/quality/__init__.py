"""The quality gate: the candidate against the version that serves now, on the same examples."""

from tidegate_validation.quality.rule import QualityRule

__all__ = ["QualityRule"]
