"""The robustness gate: a sandbox, probes and budgets; can a version hurt the server that loads it?"""

from tidegate_validation.robustness.limits import RobustnessLimits

__all__ = ["RobustnessLimits"]
