"""Verdicts and skew reports for people: one self-contained HTML page each, with a JSON twin beside it."""

from tidegate_validation.report.write import write_report

__all__ = ["write_report"]
