"""Slices: how they are cut, what is said of them, which explains others, what a search finds; scores without models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.validation.quality.judged import failing, named

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.quality.data.held_out import HeldOut, ScoredExamples
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.judgement.scores import judge_scores
from tidegate_validation.quality.metrics.gains import Gain, gain_of
from tidegate_validation.quality.rule import QualityRule, slice_outcome
from tidegate_validation.quality.slices.examples import worst_examples
from tidegate_validation.quality.slices.gains import gains_by_slice, slice_metrics
from tidegate_validation.quality.slices.partitions import (
    conditions_of,
    crosses_of,
    partitions_of,
    requested_columns,
    text_partitions_of,
)
from tidegate_validation.quality.slices.search import Losses, search
from tidegate_validation.statistics.arrays import Floats, Mask
from tidegate_validation.statistics.jackknife import paired_ratio

COLUMNS = ("shop", "age", "vip", "day")
ROWS = 12_000


class World:
    """Orders with a label, two honest models of it, and columns to slice by; every draw has a seed."""

    def __init__(self, seed: int = 0, rows: int = ROWS) -> None:
        random = np.random.default_rng(seed)
        self.table = pa.table(
            {
                "shop": random.choice(["north", "south", "web"], rows, p=[0.5, 0.3, 0.2]),
                "age": random.gamma(5, 8, rows),
                "vip": random.random(rows) < 0.25,
                "day": random.integers(0, 7, rows),
            }
        )
        truth = random.normal(0, 1.5, rows)
        labels = (random.random(rows) < 1 / (1 + np.exp(-truth))).astype(np.float64)
        self.evaluation = Evaluation("binary", labels, random.integers(0, 40, rows), ("0", "1"), clustered=False)
        self.odds, self.other = (truth + random.normal(0, 0.3, rows) for _ in range(2))
        self.noise = random.normal(0, 1, rows)

    def where(self, **values: object) -> Mask:
        """Rows with these values."""
        columns = [np.asarray(self.table[name].to_pylist()) == value for name, value in values.items()]
        return np.asarray(np.logical_and.reduce(columns))

    def judged(self, candidate: Floats, rule: QualityRule) -> list[Finding]:
        """Findings about a candidate's odds against the other model's."""
        held = HeldOut(self.table, self.evaluation, "40 random buckets")
        mine, theirs = (1 / (1 + np.exp(-odds)) for odds in (candidate, self.other))
        return judge_scores(ScoredExamples(held, mine, theirs, COLUMNS), rule)

    def spoilt(self, inside: Mask) -> Floats:
        """The candidate's odds, worthless in some rows."""
        return np.where(inside, 1.5 * self.noise, self.odds)


LAX = QualityRule(margin=0.5, loss_margin=5.0)


def told(findings: list[Finding]) -> list[tuple[str, Outcome]]:
    return [(one.subject, one.outcome) for one in findings if one.check == "slice"]


def with_postcodes(world: World) -> pa.Table:
    """The table with five digits for each row, most of them its own; the first is one of 0 to 9."""
    return world.table.append_column("postcode", [[f"{row * 7919 % 100_000:05d}" for row in range(ROWS)]])


def test_a_text_of_many_values_is_cut_by_its_first_character_and_its_length() -> None:
    world = World()
    table = with_postcodes(world)
    table = table.append_column("short", [[text.as_py().lstrip("0") for text in table["postcode"]]])
    first, short, length = text_partitions_of(table, world.evaluation, [*COLUMNS, "postcode", "short"])
    assert sorted(first.names) == [f"left(postcode, 1)={digit}" for digit in range(10)]
    assert first.rows().sum() == ROWS
    assert "left(short, 1)=0" not in short.names
    four = length.names.index("length(short)=4")
    assert length.rows()[four] == sum(len(text.as_py()) == 4 for text in table["short"])


def test_texts_are_cut_whatever_they_are() -> None:
    world = World()
    texts = [None if row % 3 == 0 else "" if row % 3 == 1 else f"é{row}" for row in range(ROWS)]
    first, length = text_partitions_of(pa.table({"note": texts}), world.evaluation, ["note"])
    assert dict(zip(first.names, first.rows(), strict=True)) == {
        "left(note, 1)=(missing)": ROWS * 2 // 3,
        "left(note, 1)=é": ROWS // 3,
    }
    assert dict(zip(length.names, length.rows(), strict=True))["length(note) is missing"] == ROWS // 3


def test_a_fault_of_texts_that_begin_with_one_character_is_named() -> None:
    world = World()
    world.table = with_postcodes(world)
    lost_zero = np.asarray([text.as_py().startswith("0") for text in world.table["postcode"]])
    held = HeldOut(world.table, world.evaluation, "40 random buckets")
    mine, theirs = (1 / (1 + np.exp(-odds)) for odds in (world.spoilt(lost_zero), world.other))
    found = judge_scores(ScoredExamples(held, mine, theirs, (*COLUMNS, "postcode")), LAX)
    assert told(found) == [("left(postcode, 1)=0", Outcome.FAIL)]


@pytest.mark.parametrize("web_is_turned_round", [False, True])
def test_declared_labels_are_judged_in_slices_by_what_they_decide(web_is_turned_round: bool) -> None:
    """However good they are, they rank less than the probabilities before them, in every slice."""
    world = World()
    odds = np.where(world.where(shop="web") & web_is_turned_round, -world.odds, world.odds)
    mine, theirs = (odds > 0).astype(np.float64), 1 / (1 + np.exp(-world.other))
    held = HeldOut(world.table, world.evaluation, "40 random buckets")
    rule = QualityRule() if not web_is_turned_round else QualityRule(margin=0.5)
    found = judge_scores(ScoredExamples(held, mine, theirs, COLUMNS, labels=True), rule)
    assert named(found, "accuracy").outcome is Outcome.PASS
    refused = [(subject, outcome) for subject, outcome in told(found) if outcome is not Outcome.PASS]
    assert refused == ([("shop=web", Outcome.FAIL)] if web_is_turned_round else [])
    assert "AUC" not in " ".join(one.sentence for one in found if one.check == "slice")


def test_columns_are_cut_by_value_or_by_quantile() -> None:
    world = World()
    shop, age, vip, day = partitions_of(world.table, world.evaluation, COLUMNS)
    assert shop.names == ("shop=north", "shop=south", "shop=web")
    assert vip.names == ("vip=False", "vip=True")
    assert day.names[:2] == ("day=0", "day=1")
    assert len(age.names) == 5
    assert age.rows()[:4].tolist() == [ROWS // 4] * 4
    edge = np.quantile(world.table["age"].to_numpy(), 0.25)
    assert age.names[0] == f"age < {edge:.6g}"
    holes = world.table.set_column(1, "age", pa.array([None, *world.table["age"].to_pylist()[1:]]))
    assert partitions_of(holes, world.evaluation, ["age"])[0].rows()[-1] == 1


def test_crosses_and_conditions_hold_the_rows_that_they_say() -> None:
    world = World()
    (cross,) = crosses_of(world.table, world.evaluation, ["shop*vip"])
    place = cross.names.index("shop=web and vip=True")
    assert np.array_equal(cross.codes == place, world.where(shop="web", vip=True))
    (young,) = conditions_of(world.table, world.evaluation, {"young": "age < 30 and not vip"})
    assert young.names == ("young",)
    assert np.array_equal(young.codes == 0, (world.table["age"].to_numpy() < 30) & world.where(vip=False))
    with pytest.raises(InvalidInput, match=r"quality\.sql\.odd is 'agee < 3', no condition on the data"):
        conditions_of(world.table, world.evaluation, {"odd": "agee < 3"})
    with pytest.raises(InvalidInput, match="cross 'shop\\*town' names column 'town'"):
        crosses_of(world.table, world.evaluation, ["shop*town"])
    with pytest.raises(InvalidInput, match="slice_columns names column 'town'"):
        requested_columns(world.table, world.evaluation, ["town"])


def test_the_gains_of_all_slices_at_once_are_those_of_each() -> None:
    world = World()
    mine, theirs = (1 / (1 + np.exp(-odds)) for odds in (world.spoilt(world.where(shop="web")), world.other))
    partitions = partitions_of(world.table, world.evaluation, COLUMNS)
    tested = gains_by_slice(world.evaluation, mine, theirs, partitions, QualityRule())
    assert {one.name for one in tested} >= {"shop=web", "day=3", "vip=True"}
    for one in tested[:6]:
        rows = np.flatnonzero(one.inside())
        for metric in slice_metrics(world.evaluation, mine, theirs, QualityRule()):
            alone = gain_of(metric, world.evaluation.take(rows), mine[rows], theirs[rows])
            (found,) = [gain for gain in one.gains if gain.metric == metric.name]
            assert found.gain.value == pytest.approx(alone.gain.value)
            assert found.gain.error == pytest.approx(alone.gain.error, rel=0.35)
            assert found.candidate == pytest.approx(alone.candidate)


@pytest.mark.parametrize("days", [4, 30])
def test_days_that_go_together_widen_a_slices_interval(days: int) -> None:
    """Few days in the slice: what they have in common is learnt from the other examples."""
    random = np.random.default_rng(1)
    group = random.integers(0, 40, ROWS)
    table = pa.table({"part": np.where(group < days, "some", "rest")})
    mood = random.normal(0, 0.5, 40)[group]
    evaluation = Evaluation("regression", np.zeros(ROWS), group)
    theirs = np.ones(ROWS)
    mine = np.sqrt(np.maximum(1 + mood + random.normal(0, 0.5, ROWS), 0))

    def error(clustered: bool) -> float:
        partitions = partitions_of(table, evaluation, ["part"])
        made = gains_by_slice(replace(evaluation, clustered=clustered), mine, theirs, partitions, QualityRule())
        return next(one.gains[0].gain.error for one in made if one.name == "part=some")

    assert error(clustered=True) == pytest.approx(0.5 / np.sqrt(days), rel=0.45)
    assert error(clustered=True) > 4 * error(clustered=False)


def test_losses_are_attributed_to_a_slice_and_not_to_those_that_only_share_its_rows() -> None:
    world = World(2)
    found = world.judged(world.spoilt(world.where(shop="web")), LAX)
    assert failing(found) == [("slice", "shop=web")]
    finding = named(found, "slice", "shop=web")
    assert finding.cause is not None
    assert "day=0" in finding.cause["explains"]
    assert "other slices are worse because they share its examples" in finding.sentence
    assert finding.interval is not None
    assert finding.p_value is not None
    assert finding.interval[1] < -0.02
    assert finding.p_value < 0.05


def test_two_faults_are_both_named() -> None:
    world = World(3)
    found = world.judged(world.spoilt(world.where(shop="web") | world.where(day=5)), LAX)
    assert set(failing(found)) == {("slice", "shop=web"), ("slice", "day=5")}


def test_a_small_loss_that_is_sure_is_a_warning() -> None:
    world = World(4, 60_000)
    found = world.judged(np.where(world.where(vip=True), world.odds + 0.55 * world.noise, world.odds), QualityRule())
    assert told(found)[0] == ("vip=True", Outcome.WARN)
    assert "is surely worse" in named(found, "slice", "vip=True").sentence


def with_shops(world: World, names: np.ndarray[tuple[int], np.dtype[np.str_]]) -> None:
    world.table = world.table.set_column(0, "shop", pa.array(names))


def test_a_rare_category_of_which_every_answer_is_wrong_is_named_though_it_is_small() -> None:
    world = World(10, 8000)
    shops = np.asarray(world.table["shop"].to_pylist())
    shops[:120] = "kiosk"
    with_shops(world, shops)
    found = world.judged(np.where(world.where(shop="kiosk"), -3 * world.odds, world.odds), QualityRule())
    assert told(found)[0] == ("shop=kiosk", Outcome.WARN)
    finding = named(found, "slice", "shop=kiosk")
    assert "where `shop=kiosk` (120 examples) its Brier score is surely worse" in finding.sentence
    assert "with 300 examples or more it would be judged" in finding.sentence
    assert finding.example is not None
    first = finding.example["examples"][0]
    assert (set(first), first["input"]["shop"]) == ({"input", "truth", "candidate", "serves now"}, "kiosk")
    assert abs(first["candidate"] - float(first["truth"])) > 0.9
    assert abs(first["serves now"] - float(first["truth"])) < 0.2
    assert all(" worse" not in one.sentence for one in found if one.subject.startswith("age"))


def test_two_values_together_are_named_though_they_are_few() -> None:
    """The columns' own slices are worse because of the pair, which is too small for a search to propose."""
    world = World(12, 8000)
    inside = world.where(shop="web", day=3)
    assert 150 < inside.sum() < 300
    found = world.judged(np.where(inside, -3 * world.odds, world.odds), QualityRule())
    assert told(found) == [("shop=web and day=3", Outcome.FAIL)]
    assert "it would be judged" not in named(found, "slice", "shop=web and day=3").sentence, "it is refused for it"
    assert "its Brier score is worse by" in named(found, "slice", "shop=web and day=3").sentence


def test_of_several_classes_the_worst_examples_name_the_class_that_is_answered() -> None:
    random = np.random.default_rng(11)
    labels = random.integers(0, 3, 900).astype(np.float64)
    good = np.eye(4)[labels.astype(int)] * 0.7 + 0.1
    bad = np.where((np.arange(900) == 7)[:, None], np.eye(4)[(labels.astype(int) + 1) % 3], good)
    held = HeldOut(
        pa.table({"row": np.arange(900)}), Evaluation("multiclass", labels, np.arange(900), ("a", "b", "c")), ""
    )
    (first, *_) = worst_examples(ScoredExamples(held, bad, good, ("row",)), good, np.arange(900) < 100)
    truth = "abc"[int(labels[7])]
    assert (first["input"], first["truth"], first["serves now"]) == ({"row": 7}, truth, f"{truth} (0.8)")
    assert first["candidate"] == f"{'abc'[(int(labels[7]) + 1) % 3]} (1)"


def test_small_slices_and_pairs_of_equal_models_are_hardly_ever_named() -> None:
    rule = replace(LAX, slice_points=0.0, slice_margin=0.0, slice_floor=0.0, auto_slices=0)
    named_ones = []
    for seed in range(60):
        world = World(300 + seed, 2000)
        with_shops(world, np.array([f"city {place}" for place in np.random.default_rng(seed).integers(0, 30, 2000)]))
        named_ones += [
            any(
                "city" in one or " and " in one
                for one, outcome in told(world.judged(world.odds, rule))
                if outcome is not Outcome.PASS
            )
        ]
    assert sum(named_ones) <= 7


def test_what_is_too_small_to_be_sure_is_said_and_refuses_nothing() -> None:
    world = World(5, 1500)
    found = world.judged(world.odds + 0.3 * world.noise, replace(LAX, slice_rows=60))
    assert failing(found) == []
    finding = named(found, "slice", "all slices")
    assert finding.outcome is Outcome.PASS
    assert "are too small to be sure, such as `" in finding.sentence
    assert finding.smallest_detectable is not None
    assert finding.smallest_detectable > 0.02


def test_a_small_slice_with_one_answer_is_named() -> None:
    world = World(9, 3000)
    few = np.arange(3000) % 60 == 0
    names = np.where(few, "kiosk", world.table["shop"].to_numpy(zero_copy_only=False).astype(str))
    with_shops(world, names)
    found = world.judged(np.where(few, 0.0, world.odds), replace(LAX, auto_slices=0))
    assert [(one.subject, one.outcome) for one in found if one.check == "collapse"] == [("shop=kiosk", Outcome.WARN)]
    assert named(found, "collapse").sentence == (
        "where `shop=kiosk` (50 examples) the candidate gives one and the same answer, 0.5; those of the version that "
        "serves now differ there"
    )
    by_shop = np.where(names == "web", 1.0, np.where(few, -1.0, 0.2 * (names == "north")))
    for odds in (world.odds, by_shop):
        assert not [one for one in world.judged(odds, replace(LAX, auto_slices=0)) if one.check == "collapse"]


def test_slices_that_the_policy_names_are_found_or_missed_aloud() -> None:
    world = World(6)
    rule = replace(LAX, sql={"rich web": "shop = 'web' and age > 60", "nobody": "age < 0"}, crosses=("shop*vip",))
    inside = world.where(shop="web") & (world.table["age"].to_numpy() > 60)
    rule = replace(rule, slice_rows=100, slice_columns=("day",), auto_slices=0)
    found = world.judged(world.spoilt(inside), rule)
    assert ("slice", "rich web") in failing(found)
    missed = named(found, "slice", "nobody")
    assert missed.outcome is Outcome.WARN
    assert "`nobody`" in missed.sentence


def test_the_number_of_slices_is_bounded_and_said() -> None:
    world = World(7)
    found = world.judged(world.odds, replace(LAX, max_slices=4, auto_slices=0))
    assert named(found, "slice").sentence.startswith("none of 4 slices is")
    assert "more were left out by quality.max_slices" in named(found, "slice").sentence
    one = world.judged(world.odds, replace(LAX, max_slices=1, auto_slices=0))
    assert named(one, "slice").sentence.startswith("none of 1 slice is")
    assert named(one, "slices").sentence == "1 slice was compared"


def test_a_search_finds_a_region_that_no_column_shows() -> None:
    """Better in most of both columns, so that only where they meet it is worse."""
    world = World(8, 20_000)
    inside = world.where(shop="north", vip=True)
    odds = np.where(inside, 1.5 * world.noise, 0.75 * world.odds + 0.25 * world.other)
    found = world.judged(odds, replace(LAX, slice_columns=COLUMNS))
    wanted = named(found, "slice", "shop=north and vip=True")
    assert wanted.outcome is Outcome.FAIL
    assert wanted.cause is not None
    assert wanted.cause["searched"]
    assert "found by a search and confirmed on the examples that it did not see" in wanted.sentence
    none = world.judged(odds, replace(LAX, slice_columns=COLUMNS, auto_slices=0))
    assert all(" and " not in subject for subject, _ in told(none))


def test_equal_models_are_hardly_ever_refused_for_a_slice_or_a_searched_region() -> None:
    rule = replace(LAX, slice_points=0.0, slice_margin=0.0)
    refused = [bool(failing((one := World(100 + seed, 4000)).judged(one.odds, rule))) for seed in range(40)]
    assert sum(refused) <= 6


def test_what_a_search_finds_in_noise_is_noise_where_it_is_tested() -> None:
    """On the half that proposed them, regions look worse by many errors; on the other half by none."""
    sure = []
    for seed in range(25):
        world = World(200 + seed, 4000)
        parts = partitions_of(world.table, world.evaluation, COLUMNS, bins=8)
        losses = Losses(world.noise, world.evaluation.groups)

        def measure(units: Mask, noise: Floats = world.noise) -> Gain:
            return Gain("squared error", 0.0, 0.0, paired_ratio(noise[units], np.ones(units.sum())), relative=False)

        sure += [one.gains[0].gain.p_below(0.0) for one in search(losses, parts, measure, QualityRule(slice_rows=80))]
    assert len(sure) > 40
    assert np.mean(np.array(sure) < 0.05) < 0.15


def test_what_outcomes_mean() -> None:
    assert slice_outcome(0.01, 0.001, -0.05, 0.02, 0.05) is Outcome.FAIL
    assert slice_outcome(0.2, 0.001, -0.05, 0.02, 0.05) is Outcome.WARN
    assert slice_outcome(0.2, 0.001, -0.005, 0.02, 0.05) is Outcome.PASS
    assert slice_outcome(0.2, 0.2, -0.05, 0.02, 0.05) is Outcome.PASS


def test_numbers_and_ranks_have_slices_too() -> None:
    random = np.random.default_rng(9)
    table = pa.table({"kind": np.repeat(random.choice(["a", "b"], 800), 10), "row": np.arange(8000) % 10})
    labels = random.integers(0, 3, 8000).astype(np.float64)
    good = labels + random.normal(0, 0.5, 8000)
    bad = np.where(np.asarray(table["kind"].to_pylist()) == "b", random.normal(0, 1, 8000), good)
    queries = np.repeat(np.arange(800), 10)
    ranked = Evaluation("ranking", labels, queries % 40, queries=queries, clustered=False)
    rule = replace(LAX, slice_rows=100)
    found = judge_scores(ScoredExamples(HeldOut(table, ranked, ""), bad, good, ("kind", "row")), rule)
    assert failing(found) == [("slice", "kind=b")]
    plain = Evaluation("regression", labels, np.arange(8000) % 40)
    found = judge_scores(
        ScoredExamples(HeldOut(table, plain, ""), bad, good, ("kind", "row")), replace(rule, loss_margin=50.0)
    )
    assert failing(found)[0] == ("slice", "kind=b")
    with pytest.raises(InvalidInput, match="cannot be cut into slices of whole examples"):
        requested_columns(table, ranked, ["row"])


@pytest.mark.parametrize("clustered", [True, False])
def test_slices_of_one_positive_each_say_nothing_of_models_that_are_alike(clustered: bool) -> None:
    """One lost positive makes up nearly all of the loss there, so that nothing is left to tell an error by."""
    for seed in range(12):
        random = np.random.default_rng(seed)
        rows = 20_000
        table = pa.table({"hour": random.integers(0, 24, rows).astype(str), "vip": random.random(rows) < 0.3})
        truth = random.normal(-6.2, 1.2, rows)
        labels = (random.random(rows) < 1 / (1 + np.exp(-truth))).astype(np.float64)
        groups = random.integers(0, 45, rows)
        evaluation = Evaluation("binary", labels, groups, ("0", "1"), clustered=clustered)
        mine, theirs = (1 / (1 + np.exp(-truth - random.normal(0, 0.5, rows))) for _ in range(2))
        scored = ScoredExamples(HeldOut(table, evaluation, "45 days"), mine, theirs, ("hour", "vip"))
        assert {outcome for _, outcome in told(judge_scores(scored, LAX))} == {Outcome.PASS}
