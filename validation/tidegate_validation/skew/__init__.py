"""Training-serving skew: schema, distribution and its cause, for windows of the log and for releases."""

from tidegate_validation.skew.report import SkewReport, report_on_log
from tidegate_validation.skew.rule import SkewRule

__all__ = ["SkewReport", "SkewRule", "report_on_log"]
