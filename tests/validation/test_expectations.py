"""The expectations gate: what is inferred from a profile, and what Great Expectations says about data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.validation import world

from tidegate_serving.contract.verdict import Finding, Outcome
from tidegate_validation import expectations
from tidegate_validation.decision import worst
from tidegate_validation.expectations import DataSet, ExpectationRule, check_data, infer
from tidegate_validation.statistics import Profile, make_profile

RULE = ExpectationRule(max_rows=2000)


@pytest.fixture(scope="module")
def profile() -> Profile:
    return make_profile(
        world.parcels(5000, seed=1),
        features=["weight", "size", "depot"],
        label=world.LABEL,
        event_time=world.TIME,
    )


def checked(profile: Profile, table: pa.Table, docs: Path | None = None) -> list[Finding]:
    return check_data([DataSet("held-out data", table, profile, world.LABEL)], RULE, docs)


def of(findings: list[Finding], column: str) -> list[Finding]:
    return [one for one in findings if one.subject == column]


def test_data_of_the_same_world_meet_everything_and_docs_are_written(profile: Profile, tmp_path: Path) -> None:
    found = checked(profile, world.parcels(3000, seed=2), tmp_path / "docs")
    assert worst([one.outcome for one in found]) is Outcome.PASS
    assert found[-1].sentence == "the held-out data meets 16 of 16 expectations of the training profile"
    assert (tmp_path / "docs" / "index.html").is_file()


def test_broken_data_fail_by_severity(profile: Profile) -> None:
    table = world.parcels(3000, seed=3)
    missing = pa.array(table["size"].to_numpy(), mask=np.random.default_rng(0).random(3000) < 0.2)
    broken = world.with_column(world.scaled(table, "weight", 50.0), "size", missing)
    broken = world.with_column(broken, "depot", np.random.default_rng(0).integers(0, 4, 3000))
    broken = world.with_column(broken, world.LABEL, np.full(3000, 7))
    found = checked(profile, broken)
    assert [one.outcome for one in of(found, "weight")] == [Outcome.WARN]
    assert "lies within" in of(found, "weight")[0].sentence
    assert [one.outcome for one in of(found, "size")] == [Outcome.FAIL]
    assert of(found, "size")[0].sentence.startswith("`size` in the held-out data: expected that it misses at most 5 %")
    assert Outcome.FAIL in [one.outcome for one in of(found, "depot")]
    assert [one.outcome for one in of(found, world.LABEL)] == [Outcome.FAIL]
    assert of(found, world.LABEL)[0].example == {"values": ["7"] * 5}


def test_a_column_that_is_not_there_fails_once(profile: Profile) -> None:
    found = checked(profile, world.parcels(1000, seed=4).drop_columns(["depot"]))
    (finding,) = of(found, "depot")
    assert finding.outcome is Outcome.FAIL
    assert finding.sentence == "`depot` in the held-out data: expected that it is there"


def test_an_exception_inside_an_expectation_is_an_error_not_bad_data(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = infer(DataSet("held-out data", world.parcels(10, seed=5), profile, world.LABEL), RULE)
    broken = [replace(one, column="no such column") if one.words == "holds numbers" else one for one in good]
    monkeypatch.setattr(expectations, "infer", lambda data, rule: broken)
    found = checked(profile, world.parcels(500, seed=5))
    errors = [one for one in found if one.outcome is Outcome.ERROR]
    assert errors
    assert "could not be checked" in errors[0].sentence
    assert Outcome.FAIL not in [one.outcome for one in found]


def test_what_is_inferred_follows_the_profile(profile: Profile) -> None:
    table = world.parcels(10, seed=6)
    found = infer(DataSet("held-out data", table, profile, world.LABEL), RULE)
    kinds = {(one.column, one.kind) for one in found}
    assert ("weight", "ExpectColumnValuesToBeBetween") in kinds
    assert ("depot", "ExpectColumnValuesToBeInSet") in kinds
    assert (world.LABEL, "ExpectColumnValuesToBeInSet") in kinds
    assert world.TIME not in {one.column for one in found}
