"""Verdicts and skew reports for people: one self-contained HTML page each, with a JSON twin beside it.

It shows what was found and decides nothing.
"""

from tidegate_validation.report.advice import next_steps
from tidegate_validation.report.verdict_view import push_words
from tidegate_validation.report.view import OverrideLine, Seal
from tidegate_validation.report.write import write_report

__all__ = ["OverrideLine", "Seal", "next_steps", "push_words", "write_report"]
