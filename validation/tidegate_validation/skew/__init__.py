"""Training-serving skew: is served data like the training data, for windows of the log and for releases.

Distance, then rule, then finding; `diagnosis` names what explains a shift.
"""

from tidegate_validation.skew.report import SkewReport, report_on_log
from tidegate_validation.skew.rule import SkewRule

__all__ = ["SkewReport", "SkewRule", "report_on_log"]
