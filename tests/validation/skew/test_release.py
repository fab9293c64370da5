"""The skew gate of a release: the candidate's training against what is served, no worse than what serves now."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.validation import world
from tests.validation.world import Served

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.outcomes import worst
from tidegate_validation.skew.release import Evidence, release_findings
from tidegate_validation.skew.rule import SkewRule
from tidegate_validation.statistics import Profile, make_profile
from tidegate_validation.statistics.window import log_window, table_window
from tidegate_validation.tables import as_table

FEATURES = ("weight", "size", "depot")
RULE = SkewRule()
LATER = world.FIRST_DAY + 60
DAY = 86_400


def profile_of(table: pa.Table, features: tuple[str, ...] = FEATURES) -> Profile:
    return make_profile(table, features=features, label=world.LABEL, event_time=world.TIME)


def spring(seed: int) -> pa.Table:
    return world.parcels(30_000, seed=seed, days=60)


def summer(seed: int, rows: int = 6000) -> pa.Table:
    """Heavier parcels, from other depots: the season has moved."""
    table = world.parcels(rows, seed=seed, days=6, first_day=LATER)
    depots = np.random.default_rng(seed).choice(["north", "east"], rows, p=[0.8, 0.2])
    return world.with_column(world.scaled(table, "weight", 1.0, 2.5), "depot", depots)


def against_log(tmp_path: Path, served: pa.Table, candidate: Profile, baseline: Profile | None) -> list[Finding]:
    world.write_log(tmp_path, Served(served))
    with log_window(tmp_path, model=world.NAME, version=1) as window:
        return release_findings(candidate, baseline, Evidence(window, served=True), RULE)


def of(findings: list[Finding], feature: str) -> Finding:
    return next(one for one in findings if one.subject == feature)


@pytest.mark.parametrize("factor", [1.609344, 1 / 1.609344, 0.3048, 1000.0])
def test_a_candidate_trained_in_another_unit_is_refused(tmp_path: Path, factor: float) -> None:
    candidate = profile_of(world.scaled(spring(2), "size", factor))
    served = world.parcels(3000, seed=3, days=3, first_day=LATER)
    found = of(against_log(tmp_path, served, candidate, profile_of(spring(1))), "size")
    assert found.outcome is Outcome.FAIL
    assert found.cause is not None
    assert found.cause["factor"] == pytest.approx(factor, rel=1e-3)
    assert f"the candidate's training values are {factor:.4g} times those that are served" in found.sentence


def test_the_sentence_names_the_units(tmp_path: Path) -> None:
    candidate = profile_of(world.scaled(spring(2), "size", 1.609344))
    served = world.parcels(900, seed=3, days=1, first_day=LATER)
    found = of(against_log(tmp_path, served, candidate, profile_of(spring(1))), "size")
    assert found.sentence == (
        "`size`: the candidate's training values are 1.609 times those that are served (kilometres against miles?)"
    )


@pytest.mark.parametrize("fault", ["a default", "a level"])
def test_another_fault_of_what_is_served_excuses_no_unit(tmp_path: Path, fault: str) -> None:
    """Celsius is served and was trained on, and the candidate learnt kelvins."""
    celsius, served = world.parcels(9000, seed=1, days=30), world.parcels(3000, seed=3, days=10, first_day=LATER)
    weight = served["weight"].to_numpy()
    wrong = np.where(np.arange(len(weight)) % 33 == 0, np.float32(-1), weight) if fault == "a default" else weight + 1
    served = world.with_column(served, "weight", wrong)
    kelvins = profile_of(world.scaled(celsius, "weight", 1.0, 273.15))
    found = of(against_log(tmp_path, served, kelvins, profile_of(celsius)), "weight")
    assert found.outcome is Outcome.FAIL
    assert "the candidate's training values are those that are served plus 27" in found.sentence
    assert of(against_log(tmp_path, served, kelvins, kelvins), "weight").outcome is Outcome.WARN


def test_a_candidate_that_mends_the_unit_is_let_through(tmp_path: Path) -> None:
    baseline = profile_of(world.scaled(spring(1), "size", 1.609344))
    served = world.parcels(3000, seed=3, days=3, first_day=LATER)
    assert of(against_log(tmp_path, served, profile_of(spring(2)), baseline), "size").outcome is Outcome.PASS


def test_a_season_that_moves_both_refuses_nobody(tmp_path: Path) -> None:
    found = against_log(tmp_path, summer(4), profile_of(spring(2)), profile_of(spring(1)))
    assert worst([one.outcome for one in found]) is Outcome.WARN
    assert "no more so than for the version that serves now" in of(found, "weight").sentence


def test_a_candidate_further_from_the_season_than_the_baseline_is_refused(tmp_path: Path) -> None:
    """The same winter data, kept by a candidate after the baseline had learnt the summer."""
    baseline = profile_of(pa.concat_tables([summer(seed, 1000) for seed in range(30)]))
    found = against_log(tmp_path, summer(4), profile_of(spring(2)), baseline)
    assert of(found, "weight").outcome is Outcome.FAIL
    assert of(found, "size").outcome is Outcome.PASS


@pytest.mark.parametrize(("factor", "offset"), [(1.8, 32.0), (1 / 1.8, -32 / 1.8)])
def test_a_baseline_off_by_an_offset_too_is_as_far_in_either_direction(
    tmp_path: Path, factor: float, offset: float
) -> None:
    """Fahrenheit against Celsius, and the other way; the candidate differs by the factor alone."""
    served = world.scaled(world.parcels(6000, seed=3, days=6, first_day=LATER), "size", factor, offset)
    candidate = profile_of(world.scaled(spring(2), "size", 1.0, offset / factor))
    found = of(against_log(tmp_path, served, candidate, profile_of(spring(1))), "size")
    assert found.outcome is Outcome.WARN
    assert found.sentence.endswith("no more so than for the version that serves now")


def test_a_new_input_is_noted_for_nobody_knows_what_will_be_served(tmp_path: Path) -> None:
    table = world.with_column(spring(2), "height", np.random.default_rng(0).random(30_000))
    served = world.parcels(3000, seed=3, days=3, first_day=LATER)
    found = against_log(tmp_path, served, profile_of(table, (*FEATURES, "height")), profile_of(spring(1)))
    assert of(found, "height").outcome is Outcome.WARN
    assert "new input" in of(found, "height").sentence


def test_a_thin_log_cannot_excuse_another_unit(tmp_path: Path) -> None:
    candidate = profile_of(world.scaled(spring(2), "weight", 2.20462))
    baseline = profile_of(spring(1))
    served = world.parcels(9, seed=3, days=1, first_day=LATER)
    weights = [of(against_log(tmp_path, served, one, baseline), "weight").outcome for one in (candidate, baseline)]
    assert weights[1] is Outcome.PASS
    assert weights[0] is not Outcome.FAIL


def orders(seed: int, days: int, first_day: int, rows: int = 300, spread: float = 0.5) -> pd.DataFrame:
    """Parcels that cost by their weight, the more so the more their sizes are `spread`, with two amounts that are
    spread alike and hang together with nothing."""
    random = np.random.default_rng(seed)
    n = rows * days
    size = np.exp(random.normal(0, spread, n))
    return pd.DataFrame(
        {
            "at": np.repeat(first_day + np.arange(days), rows) * DAY + random.integers(0, DAY, n),
            "price": np.round(20 * size * np.exp(random.normal(0, 0.3, n)), 2),
            "weight": np.round(3 * size * np.exp(random.normal(0, 0.3, n)), 2),
            "score": np.round(random.normal(0, 1, n), 3),
            "last": np.round(20 * np.exp(random.normal(0, 0.6, n)), 2),
            "before": np.round(20 * np.exp(random.normal(0, 0.6, n)), 2),
        }
    )


def shuffled(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(weight=np.random.default_rng(4).permutation(rows["weight"]))


def of_trained(
    candidate: pd.DataFrame, baseline: pd.DataFrame | None = None, served: pd.DataFrame | None = None
) -> dict[str, Finding]:
    """What does not pass of a candidate with such training, by the column."""
    baseline = orders(1, 60, 16_000) if baseline is None else baseline
    served = orders(3, 7, 16_070) if served is None else served
    mine, theirs = (
        make_profile(as_table(one, "training"), features=[*candidate][1:], label=None, event_time="at")
        for one in (candidate, baseline)
    )
    with table_window(as_table(served, "served"), event_time="at") as window:
        found = release_findings(mine, theirs, Evidence(window, served=True), RULE)
    return {one.subject: one for one in found if one.outcome is not Outcome.PASS}


def test_a_candidate_trained_on_a_column_that_was_shuffled_or_copied_is_refused() -> None:
    rows = orders(2, 60, 16_005)
    assert of_trained(rows) == {}

    (told,) = of_trained(shuffled(rows)).values()
    assert told.outcome is Outcome.FAIL
    assert "in the candidate's training its values do not go with those of" in told.sentence
    assert told.sentence.endswith("as they do in those that are served (shuffled rows?)")

    (told,) = of_trained(rows.assign(before=rows["last"])).values()
    assert (told.check, told.outcome) == ("equal columns", Outcome.FAIL)
    assert told.sentence.endswith("in training they were always equal")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("days", "rows"), [(30, 100), (14, 300), (1, 3000), (60, 20)])
def test_a_smaller_training_that_shows_less_of_what_goes_together_is_no_shuffled_one(
    seed: int, days: int, rows: int
) -> None:
    small = orders(seed, days, 16_005, rows, spread=0.2)
    assert of_trained(small, orders(11, 60, 16_000, spread=0.2), orders(13, 7, 16_070, spread=0.2)) == {}


def test_only_what_is_served_says_that_a_column_was_shuffled_in_training() -> None:
    candidate = shuffled(orders(2, 60, 16_005))
    served = orders(3, 7, 16_070)
    thin = pd.concat([one.head(20) for _, one in served.groupby(served["at"] // DAY)][:3])
    for window in (served.drop(columns="weight"), thin):
        told = [one for one in of_trained(candidate, served=window).values() if one.check == "together"]
        assert [one.outcome for one in told] == [Outcome.WARN]
        assert told[0].sentence.endswith("and those that are served do not tell which is right")
    ended = shuffled(served)
    for window in (ended, ended.head(600)):
        assert of_trained(candidate, served=window) == {}


def test_what_is_said_of_the_candidate_alone_refuses_it_whatever_test_says_it() -> None:
    rows = orders(2, 60, 16_005)
    (told,) = of_trained(rows.assign(score=rows["score"].round(2))).values()
    assert (told.check, told.outcome) == ("digits", Outcome.FAIL)


def rounded(rows: pd.DataFrame) -> pd.DataFrame:
    """With less of the score's digits in one row of ten."""
    some = np.random.default_rng(9).random(len(rows)) < 0.1
    return rows.assign(score=rows["score"].mask(some, rows["score"].round(2)))


@pytest.mark.parametrize("days", [4, 10])
def test_a_fault_of_what_is_served_refuses_no_candidate_whose_baseline_had_few_days(days: int) -> None:
    few, served = orders(1, days, 16_000), orders(3, 7, 16_070)
    fine = served.assign(score=served["score"].round(2))
    found = of_trained(rounded(orders(2, 60, 16_005)), rounded(few)).values()
    assert [(one.check, one.outcome) for one in found] == [("digits", Outcome.WARN)]
    assert of_trained(rounded(few), rounded(few)) == {}
    for window in (fine, shuffled(served)):
        found = of_trained(orders(2, 60, 16_005), few, window).values()
        assert {one.outcome for one in found} == {Outcome.WARN}

    (told,) = of_trained(orders(2, 60, 16_005).assign(score=lambda one: one["score"].round(2)), few).values()
    assert (told.check, told.outcome) == ("digits", Outcome.FAIL)


def first_version(held_out: pa.Table, candidate: Profile) -> list[Finding]:
    with table_window(held_out, event_time=world.TIME) as window:
        return release_findings(candidate, None, Evidence(window, served=False), RULE)


def test_a_first_version_is_not_refused_for_the_season() -> None:
    found = first_version(summer(5), profile_of(spring(2)))
    assert worst([one.outcome for one in found]) is Outcome.WARN


def test_a_first_version_is_refused_for_a_unit_and_for_a_missing_column() -> None:
    candidate = profile_of(world.scaled(spring(2), "size", 0.3048))
    found = of(first_version(summer(6), candidate), "size")
    assert found.outcome is Outcome.FAIL
    assert "0.3048 times those held out (metres against feet?)" in found.sentence
    assert of(first_version(summer(6).drop_columns(["size"]), candidate), "size").outcome is Outcome.FAIL
