"""Would a rollback help: the same skew, once brought by what arrives and once by the version, with real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.validation import world
from tests.validation.world import Draft, Served

from tidegate_serving.contract.repository import profile_directory
from tidegate_validation.report import write_report
from tidegate_validation.skew import SkewReport, report_on_log
from tidegate_validation.skew.rollback import Advice
from tidegate_validation.skew.undo import undone

POUNDS = 2.20462
IN_POUNDS = world.HONEST.replace('inputs["weight"]', f'(inputs["weight"] / {POUNDS})')
LATER = world.FIRST_DAY + 60
KILOS = world.parcels(12_000, seed=1, days=40)
TODAY = world.parcels(2_000, seed=3, days=5, first_day=LATER)


def versions(root: Path, serving: Draft, previous: Draft) -> tuple[Path, Path]:
    return world.publish(root, 2, serving), world.publish(root, 1, previous)


def judged(root: Path, both: tuple[Path, Path], table: pa.Table) -> SkewReport:
    log = world.write_log(root / "log", Served(table, version=2))
    return report_on_log(profile_directory(both[0]), log, model=world.NAME, version=2, versions=both)


def test_where_the_old_version_suffers_too_the_feed_is_at_fault(tmp_path: Path) -> None:
    both = versions(tmp_path, Draft(training=KILOS), Draft(training=world.parcels(12_000, seed=2, days=40)))
    report = judged(tmp_path, both, world.scaled(TODAY, "weight", POUNDS))
    found = report.rollback
    assert found is not None
    assert (found.advice, found.feed, found.version, found.mended) == (Advice.FEED, ("weight",), (), ("weight",))
    assert found.serving_changes is not None
    assert found.serving_changes > 0.2
    assert found.serving_changes == found.previous_changes
    assert found.rollback_changes == 0
    assert "mend the feed" in found.sentence
    page = write_report(report, tmp_path / "report")
    assert "A rollback does not help" in page.read_text()
    assert report.to_dict()["rollback"]["advice"] == "the feed is at fault"


def test_where_the_version_learnt_other_units_a_rollback_helps(tmp_path: Path) -> None:
    taught = Draft(source=IN_POUNDS, training=world.scaled(KILOS, "weight", POUNDS))
    both = versions(tmp_path, taught, Draft(training=KILOS))
    found = judged(tmp_path, both, TODAY).rollback
    assert found is not None
    assert (found.advice, found.version, found.previous) == (Advice.HELPS, ("weight",), "parcels:1")
    assert found.rollback_changes == pytest.approx(found.serving_changes, abs=0.02)


@pytest.mark.parametrize("feed", [True, False])
def test_without_a_profile_the_answers_tell(tmp_path: Path, feed: bool) -> None:
    taught = Draft(source=IN_POUNDS, training=world.scaled(KILOS, "weight", POUNDS))
    both = versions(tmp_path, Draft(training=KILOS) if feed else taught, Draft())
    found = judged(tmp_path, both, world.scaled(TODAY, "weight", POUNDS) if feed else TODAY).rollback
    assert found is not None
    assert found.advice is (Advice.FEED if feed else Advice.HELPS)


def test_a_version_that_does_not_answer_leaves_it_open(tmp_path: Path) -> None:
    fussy = world.before_return("assert len(weight) == 1")
    both = versions(tmp_path, Draft(training=KILOS), Draft(source=fussy))
    found = judged(tmp_path, both, world.scaled(TODAY, "weight", POUNDS)).rollback
    assert found is not None
    assert found.advice is Advice.UNKNOWN
    assert "parcels:1 does not answer" in found.sentence


def test_without_answers_the_profile_tells(tmp_path: Path) -> None:
    fussy = world.before_return("assert len(weight) == 1")
    both = versions(tmp_path, Draft(training=KILOS), Draft(source=fussy, training=KILOS))
    found = judged(tmp_path, both, world.scaled(TODAY, "weight", POUNDS)).rollback
    assert found is not None
    assert (found.advice, found.rows, found.serving_changes) == (Advice.FEED, 0, None)


def test_what_is_as_in_training_needs_no_advice(tmp_path: Path) -> None:
    both = versions(tmp_path, Draft(training=KILOS), Draft(training=KILOS))
    assert judged(tmp_path, both, TODAY).rollback is None


def test_what_can_be_taken_back_is_taken_back() -> None:
    rows = pa.table({"a": [2.0, 4.0], "hour": [23, 1], "b": ["new", "c"], "x": [1, 2], "y": [3, 4], "cut": [5.0, 5.0]})
    causes: dict[str, dict[str, Any]] = {
        "a": {"kind": "factor and offset", "factor": 2.0, "offset": 1.0, "share": 1.0},
        "hour": {"kind": "clock", "offset": 5.0},
        "b": {"kind": "renamed category", "old": "b", "new": "new"},
        "x": {"kind": "other column", "column": "y"},
        "y": {"kind": "other column", "column": "x"},
        "cut": {"kind": "clipped", "at": 5.0},
    }
    mended, done = undone(rows, causes)
    assert done == ("a", "hour", "b", "x", "y")
    assert mended.to_pydict() == {
        "a": [0.5, 1.5],
        "hour": [18, 20],
        "b": ["b", "c"],
        "x": [3, 4],
        "y": [1, 2],
        "cut": [5.0, 5.0],
    }
    part: dict[str, dict[str, Any]] = {"a": {"kind": "constant factor", "factor": 2.0, "share": 0.2}}
    assert undone(rows, part)[1] == ()
    assert np.array_equal(rows["hour"].to_numpy(), [23, 1])


def test_of_a_part_of_the_rows_that_of_a_category_is_taken_back() -> None:
    rows = pa.table({"a": [2.0, 4.0, 6.0], "site": ["east", "west", None], "line": [1.0, 2.0, 1.0]})
    rows = rows.append_column("release", [["2.0.0", "2.0", "2.0.0"]])
    factor: dict[str, Any] = {"kind": "constant factor", "factor": 2.0, "share": 0.3}
    by_text = {"a": {**factor, "where": {"column": "site", "value": "west"}}}
    assert undone(rows, by_text)[0]["a"].to_pylist() == [2.0, 2.0, 6.0]
    by_number = {"a": {**factor, "where": {"column": "line", "value": "1"}}}
    assert undone(rows, by_number)[0]["a"].to_pylist() == [1.0, 4.0, 3.0]
    by_release = {"a": {**factor, "where": {"column": "release", "value": "2.0.0"}}}
    assert undone(rows, by_release)[0]["a"].to_pylist() == [1.0, 4.0, 3.0]
    gone = {"a": {**factor, "where": {"column": "place", "value": "west"}}}
    assert undone(rows, gone)[1] == ()
