"""Training-serving skew: is served data like the training data, for windows of the log, for releases, and for any two
tables.

Numbers (`measures`), then rule, then finding; `columns` and `events` look for what a distance alone would miss, and
`diagnosis` names what explains a shift.
"""

from tidegate_validation.skew.left_out import LeftOut
from tidegate_validation.skew.report import SkewReport, report_on_log, without
from tidegate_validation.skew.rule import SkewRule
from tidegate_validation.skew.two_tables import Columns, report_on_tables

__all__ = ["Columns", "LeftOut", "SkewReport", "SkewRule", "report_on_log", "report_on_tables", "without"]
