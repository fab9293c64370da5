"""Expectation suites as files: JSON of Great Expectations' own suite format, written by us, edited by people.

A version carries `expectations/suite.json` (of every row) and `expectations/statistics.json` (of the statistics table),
listed in its manifest; Great Expectations itself reads them too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.formats import MALFORMED
from tidegate_serving.contract.plain_file import read_given
from tidegate_serving.files import write_json
from tidegate_validation.expectations.expectation import CRITICAL, SEVERITIES, Expectation
from tidegate_validation.expectations.infer import infer, infer_statistics
from tidegate_validation.expectations.rule import ExpectationRule
from tidegate_validation.statistics.profile import Profile

SUITE_NAME = "suite.json"
STATISTICS_NAME = "statistics.json"


@dataclass(frozen=True, slots=True)
class Suites:
    """What is expected of every row, and of the statistics of the whole table."""

    rows: tuple[Expectation, ...]
    statistics: tuple[Expectation, ...] = ()

    @classmethod
    def inferred(cls, profile: Profile, rule: ExpectationRule) -> Suites:
        """Both, from a training profile."""
        return cls(tuple(infer(profile, rule)), tuple(infer_statistics(profile, rule)))


def write_suites(suites: Suites, directory: Path) -> None:
    """Writes both files into a directory, which is made if need be."""
    for name, expectations in ((SUITE_NAME, suites.rows), (STATISTICS_NAME, suites.statistics)):
        document = {
            "name": name.removesuffix(".json"),
            "expectations": [_document(one) for one in expectations],
            "meta": {"inferred_by": "tidegate"},
        }
        write_json(directory / name, document)


def read_suites(directory: Path) -> Suites | None:
    """The suites in a directory, None where it has no `suite.json`. InvalidInput naming the file and what is wrong."""
    if not (directory / SUITE_NAME).is_file():
        return None
    statistics = directory / STATISTICS_NAME
    return Suites(read_suite(directory / SUITE_NAME), read_suite(statistics) if statistics.is_file() else ())


def read_suite(path: Path) -> tuple[Expectation, ...]:
    """The expectations of one file. NotFound, or InvalidInput naming the file and the expectation."""
    try:
        document = json.loads(read_given(path, "expectations file", "make one with `tidegate expectations infer`"))
    except MALFORMED as error:
        raise InvalidInput(f"expectations {path} are not JSON ({error}): correct them") from error
    entries = document.get("expectations") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise InvalidInput(f"{path} has no list of expectations: it is no Great Expectations suite")
    return tuple(_expectation(entry, f"expectation number {place} of {path}") for place, entry in enumerate(entries, 1))


def _document(one: Expectation) -> dict[str, Any]:
    return {"type": one.type, "kwargs": dict(one.kwargs), "severity": one.severity, "meta": dict(one.meta)}


def _expectation(entry: Any, where: str) -> Expectation:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("type"), str):
        raise InvalidInput(f"{where} names no type, such as expect_column_values_to_not_be_null")
    kwargs, meta = entry.get("kwargs", {}), entry.get("meta") or {}
    if not isinstance(kwargs, Mapping) or not isinstance(meta, Mapping):
        raise InvalidInput(f"{where} ({entry['type']}) has kwargs or meta that are no objects: correct them")
    severity = entry.get("severity", CRITICAL)
    if severity not in SEVERITIES:
        raise InvalidInput(f"{where} ({entry['type']}) has severity {severity!r}: use {', '.join(SEVERITIES)}")
    return Expectation(entry["type"], dict(kwargs), severity, dict(meta))
