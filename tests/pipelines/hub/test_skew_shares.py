"""A skew report brings how each feature was spread, in training and in its window, for the feature's page."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from tidegate_pipelines.hub.engines.skew import keep_report
from tidegate_pipelines.hub.store import Database, FeatureProfileRow, SkewWindowRow
from tidegate_serving.contract.errors import InvalidInput


def report(**more: Any) -> dict[str, Any]:
    finding = {"check": "distribution", "subject": "x", "outcome": "PASS", "sentence": "fine", "number": 0.01}
    return {
        "format": "tidegate.skew-report/1",
        "model": "m",
        "version": 2,
        "since": "2026-05-01T00:00:00+00:00",
        "until": "2026-05-02T00:00:00+00:00",
        "rows": 100,
        "outcome": "PASS",
        "sentence": "as in training",
        "findings": [finding],
        "shares": {"x": {"labels": ["low", "high"], "reference": [0.25, 0.75], "current": [0.5, 0.5]}},
        **more,
    }


def test_shares_and_profile_are_kept_once(database: Database) -> None:
    assert keep_report(database, report(), "a") == 2
    assert keep_report(database, report(), "b") == 0
    with database.reading() as session:
        rows = {row.feature: row.shares for row in session.scalars(select(SkewWindowRow))}
        profile = session.scalars(select(FeatureProfileRow)).one()
    assert rows == {"": [], "x": [0.5, 0.5]}
    assert (profile.feature, profile.document) == ("x", {"labels": ["low", "high"], "shares": [0.25, 0.75]})


def test_a_report_without_shares_or_with_broken_ones(database: Database) -> None:
    assert keep_report(database, report(shares={}), "a") == 2
    with pytest.raises(InvalidInput, match="no skew report of one window"):
        keep_report(database, report(shares={"x": {"labels": ["low"]}}), "b")
