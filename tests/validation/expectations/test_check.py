"""The expectations gate: what is inferred from a profile, what people may edit, and what is said about data."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.file_limit import no_file_beyond
from tests.validation import world

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.errors import InvalidInput, ResourceExhausted
from tidegate_validation.expectations import (
    DataSet,
    Expectation,
    ExpectationRule,
    Suites,
    check_data,
    infer,
    read_suites,
    write_suites,
)
from tidegate_validation.outcomes import worst
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


def checked(profile: Profile, table: pa.Table, docs: Path | None = None, suites: Suites | None = None) -> list[Finding]:
    return check_data([DataSet("held-out data", table, profile, suites)], RULE, docs)


def of(findings: list[Finding], column: str) -> list[Finding]:
    return [one for one in findings if one.subject == column]


def test_data_of_the_same_world_meet_everything_and_docs_are_written(profile: Profile, tmp_path: Path) -> None:
    found = checked(profile, world.parcels(3000, seed=2), tmp_path / "docs")
    assert worst([one.outcome for one in found]) is Outcome.PASS
    (told,) = found
    met, asked = (int(word) for word in told.sentence.split() if word.isdigit())
    assert met == asked > 30
    assert told.sentence.startswith("the held-out data meets ")
    assert told.sentence.endswith(" expectations of the training profile")
    assert (tmp_path / "docs" / "index.html").is_file()
    pages = [page.read_text() for page in (tmp_path / "docs").rglob("*.html")]
    assert any("weight: median" in page for page in pages), "the statistics table has docs too"


@pytest.mark.parametrize("largest", [1_000, 60_000], ids=["no page", "pages, and no fonts"])
def test_docs_that_cannot_be_written_are_told_without_a_traceback(
    profile: Profile, tmp_path: Path, caplog: pytest.LogCaptureFixture, largest: int
) -> None:
    told = r"Data Docs cannot be written into .*docs \(File too large\): free"
    with no_file_beyond(largest), pytest.raises(ResourceExhausted, match=told):
        checked(profile, world.parcels(500, seed=2), tmp_path / "docs")
    assert [one.name for one in caplog.records] == []


def test_the_library_does_not_fill_a_tasks_log_where_info_is_on(
    profile: Profile, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        checked(profile, world.parcels(500, seed=2))
        assert not logging.getLogger("great_expectations.core").isEnabledFor(logging.INFO)
    assert not [one for one in caplog.records if one.name.startswith("great_expectations")]


def test_broken_data_fail_by_severity(profile: Profile) -> None:
    table = world.parcels(3000, seed=3)
    missing = pa.array(table["size"].to_numpy(), mask=np.random.default_rng(0).random(3000) < 0.2)
    broken = world.with_column(world.scaled(table, "weight", 50.0), "size", missing)
    broken = world.with_column(broken, "depot", np.random.default_rng(0).integers(0, 4, 3000))
    broken = world.with_column(broken, world.LABEL, np.full(3000, 7))
    found = checked(profile, broken)
    rows, statistics = of(found, "weight")
    assert (rows.outcome, statistics.outcome) == (Outcome.WARN, Outcome.WARN)
    assert "lies within" in rows.sentence
    assert rows.limit == pytest.approx(0.01)
    assert "its median is " in statistics.sentence
    assert statistics.example is not None
    assert set(statistics.example["statistics"]) >= {"median", "75 % quantile"}
    rows, statistics = of(found, "size")
    assert (rows.outcome, statistics.outcome) == (Outcome.FAIL, Outcome.WARN)
    assert rows.sentence.startswith("`size` in the held-out data: expected that it misses at most 5 %")
    assert rows.rule == "expectations, severity critical"
    assert statistics.sentence.startswith("`size` in the held-out data: its missing share is 0.")
    assert Outcome.FAIL in [one.outcome for one in of(found, "depot")]
    label = of(found, world.LABEL)
    assert label[0].outcome is Outcome.FAIL
    assert label[0].example == {"values": ["7"] * 5}


def test_a_fault_outside_the_sample_is_seen_in_the_statistics(profile: Profile) -> None:
    table = world.parcels(30000, seed=9)
    values = table["weight"].to_numpy().copy()
    sample = np.random.default_rng(13).choice(30000, RULE.max_rows, replace=False)
    values[np.setdiff1d(np.arange(30000), sample)] *= 40.0
    found = checked(profile, world.with_column(table, "weight", values))
    (finding,) = of(found, "weight")
    assert (finding.check, finding.outcome) == ("statistics", Outcome.WARN)


def test_a_column_that_is_not_there_fails_once(profile: Profile) -> None:
    found = checked(profile, world.parcels(1000, seed=4).drop_columns(["depot"]))
    (finding,) = of(found, "depot")
    assert finding.outcome is Outcome.FAIL
    assert finding.sentence == "`depot` in the held-out data: expected that it is there"


def test_an_exception_inside_an_expectation_is_an_error_not_bad_data(profile: Profile) -> None:
    odd = Expectation("expect_column_values_to_match_regex", {"column": "weight", "regex": "("})
    found = checked(profile, world.parcels(500, seed=5), suites=Suites((odd,)))
    assert [one.outcome for one in of(found, "weight")] == [Outcome.ERROR]
    assert "could not be checked" in of(found, "weight")[0].sentence


def test_what_is_inferred_follows_the_profile(profile: Profile) -> None:
    found = infer(profile, RULE)
    kinds = {(one.subject, one.type) for one in found}
    assert ("weight", "expect_column_values_to_be_between") in kinds
    assert ("depot", "expect_column_values_to_be_in_set") in kinds
    assert (world.LABEL, "expect_column_values_to_be_in_set") in kinds
    assert world.TIME not in {one.subject for one in found}


def test_a_label_of_more_than_two_values_may_bring_one_that_training_never_held() -> None:
    """As counts do; many strange ones are another label."""
    counts = np.random.default_rng(3).poisson(1.0, 3000)
    table = world.with_column(world.parcels(3000, seed=6), world.LABEL, counts)
    found = make_profile(table, features=["depot"], label=world.LABEL, event_time=world.TIME)

    def outcomes(strange: int) -> list[Outcome]:
        labels = np.where(np.arange(3000) < strange, counts.max() + 1, counts)
        return [one.outcome for one in of(checked(found, world.with_column(table, world.LABEL, labels)), world.LABEL)]

    assert Outcome.FAIL not in outcomes(2)
    assert Outcome.FAIL in outcomes(300)


def test_of_free_text_nothing_is_expected_to_be_known() -> None:
    """Each text of a day is new; depots come again."""
    table = world.parcels(3000, seed=6)
    texts = [f"parcel {number} for somebody" for number in range(table.num_rows)]
    found = make_profile(
        table.append_column("note", pa.array(texts)),
        features=["note", "depot"],
        label=world.LABEL,
        event_time=world.TIME,
    )
    kinds = {one.subject: one.type for one in infer(found, RULE) if one.type.endswith("in_set")}
    assert set(kinds) == {"depot", world.LABEL}


def edited(profile: Profile, folder: Path, edit: Callable[[list[dict[str, Any]]], object]) -> Suites:
    """The inferred suites after somebody has edited the file."""
    write_suites(Suites.inferred(profile, RULE), folder)
    path = folder / "suite.json"
    document = json.loads(path.read_text())
    edit(document["expectations"])
    path.write_text(json.dumps(document))
    found = read_suites(folder)
    assert found is not None
    return found


def entry(expectations: list[dict[str, Any]], column: str, kind: str) -> dict[str, Any]:
    return next(
        one for one in expectations if one["kwargs"]["column"] == column and one["type"] == f"expect_column_{kind}"
    )


def test_suites_come_back_from_their_files_as_they_were(profile: Profile, tmp_path: Path) -> None:
    suites = Suites.inferred(profile, RULE)
    write_suites(suites, tmp_path / "expectations")
    assert read_suites(tmp_path / "expectations") == suites
    assert read_suites(tmp_path / "nowhere") is None


def test_edited_bounds_shares_and_severities_are_honoured(profile: Profile, tmp_path: Path) -> None:
    table = world.parcels(3000, seed=2)

    def tighten(expectations: list[dict[str, Any]]) -> None:
        between = entry(expectations, "weight", "values_to_be_between")
        between["kwargs"]["max_value"] = float(np.quantile(table["weight"].to_numpy(), 0.8))

    found = checked(profile, table, suites=edited(profile, tmp_path, tighten))
    assert [one.outcome for one in of(found, "weight")] == [Outcome.WARN]
    assert "meets" in found[-1].sentence
    assert found[-1].sentence.endswith("of its version's own suite")

    def harden(expectations: list[dict[str, Any]]) -> None:
        tighten(expectations)
        entry(expectations, "weight", "values_to_be_between")["severity"] = "critical"

    found = checked(profile, table, suites=edited(profile, tmp_path, harden))
    assert [one.outcome for one in of(found, "weight")] == [Outcome.FAIL]

    def loosen(expectations: list[dict[str, Any]]) -> None:
        tighten(expectations)
        entry(expectations, "weight", "values_to_be_between")["kwargs"]["mostly"] = 0.5

    assert not of(checked(profile, table, suites=edited(profile, tmp_path, loosen)), "weight")

    def note(expectations: list[dict[str, Any]]) -> None:
        tighten(expectations)
        entry(expectations, "weight", "values_to_be_between")["severity"] = "info"

    found = checked(profile, table, suites=edited(profile, tmp_path, note))
    assert [one.outcome for one in of(found, "weight")] == [Outcome.PASS]


def test_an_expectation_that_somebody_added_is_checked(profile: Profile, tmp_path: Path) -> None:
    def add(expectations: list[dict[str, Any]]) -> None:
        pair = {"column_A": "weight", "column_B": "size"}
        expectations.append({"type": "expect_column_pair_values_a_to_be_greater_than_b", "kwargs": pair})
        expectations.append({"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 4000}})

    found = checked(profile, world.parcels(3000, seed=2), suites=edited(profile, tmp_path, add))
    (pair,) = of(found, "weight, size")
    assert pair.outcome is Outcome.FAIL
    (count,) = of(found, "table")
    assert (count.outcome, "its rows is 3000, expected that it is at least 4000" in count.sentence) == (
        Outcome.FAIL,
        True,
    )


def test_the_policy_may_leave_a_versions_own_suite_aside(profile: Profile) -> None:
    nothing = Suites((Expectation("expect_column_to_exist", {"column": "weight"}),))
    data = DataSet("held-out data", world.scaled(world.parcels(500, seed=2), "weight", 50.0), profile, nothing)
    assert worst([one.outcome for one in check_data([data], RULE, None)]) is Outcome.PASS
    strict = replace(RULE, own_suite=False)
    assert worst([one.outcome for one in check_data([data], strict, None)]) is Outcome.WARN


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"type": "expect_nonsense"}, "expect_nonsense of weight cannot be used"),
        ({"kwargs": {"column": "weight", "mostly": 3}}, "cannot be used .*mostly"),
        ({"kwargs": {"columns": "weight"}}, "cannot be used"),
        ({"severity": "dreadful"}, "number 1 of .*suite.json .* has severity 'dreadful': use critical"),
        ({"kwargs": 3}, "kwargs or meta that are no objects"),
        ({"type": 3}, "names no type"),
    ],
)
def test_a_mistake_in_an_edited_suite_is_named_and_never_dropped(
    profile: Profile, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    def spoil(expectations: list[dict[str, Any]]) -> None:
        good = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "weight"}}
        expectations[:] = [{**good, **change}]

    with pytest.raises(InvalidInput, match=words):
        checked(profile, world.parcels(100, seed=2), suites=edited(profile, tmp_path, spoil))


def test_a_version_without_a_profile_is_held_to_its_own_suite() -> None:
    table = world.parcels(300, seed=2)
    between = {"column": "weight", "min_value": 1000.0}
    suites = Suites((Expectation("expect_column_values_to_be_between", between),))
    found = check_data([DataSet("held-out data", table, None, suites)], replace(RULE, own_suite=False), None)
    assert [one.outcome for one in of(found, "weight")] == [Outcome.FAIL]
    with pytest.raises(InvalidInput, match="give a profile, or suites"):
        DataSet("held-out data", table, None)


@pytest.mark.parametrize("text", ["{", "[]", '{"expectations": 3}'])
def test_a_file_that_is_no_suite_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "suite.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"suite\.json"):
        read_suites(tmp_path)


def test_a_suite_that_asks_nothing_is_inconclusive(profile: Profile) -> None:
    (told,) = checked(profile, world.parcels(100, seed=2), suites=Suites(()))
    assert told.outcome is Outcome.INCONCLUSIVE
