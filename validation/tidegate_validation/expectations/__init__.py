"""Data expectations: suites inferred from a training profile, kept as files to edit, run by Great Expectations.

Expectations of rows look at a sample, those of statistics at all rows.
"""

from tidegate_validation.expectations.check import DataSet, check_data
from tidegate_validation.expectations.expectation import Expectation
from tidegate_validation.expectations.infer import infer
from tidegate_validation.expectations.rule import ExpectationRule
from tidegate_validation.expectations.suite import Suites, read_suites, write_suites

__all__ = [
    "DataSet",
    "Expectation",
    "ExpectationRule",
    "Suites",
    "check_data",
    "infer",
    "read_suites",
    "write_suites",
]
