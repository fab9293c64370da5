"""The quality gate on real probe processes: equal, worse and leaking models, weak baselines, first versions."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.validation import world
from tests.validation.quality.judged import judged, named, outcome
from tests.validation.world import HONEST, Draft, before_return

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.quality.rule import QualityRule

WITH_HINT = Signature((*world.INPUTS, TensorSpec("hint", "float32")), world.OUTPUT)
USES_HINT = HONEST.replace("score = 0.45", 'score = 6.0 * (inputs["hint"] - 0.5) + 0.45')
WEAK = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {"probability": (0.45 + 0.02 * (inputs["depot"] == b"east")).astype(np.float32)}
"""


def held_out(rows: int = 4000, seed: int = 21) -> pa.Table:
    return world.parcels(rows, seed=seed)


def leaking(table: pa.Table, noise: float) -> pa.Table:
    """The table with a column that knows the label."""
    random = np.random.default_rng(5)
    return world.with_column(
        table, "hint", (table[world.LABEL].to_numpy() + random.normal(0, noise, table.num_rows)).astype(np.float32)
    )


def test_an_equal_model_passes(tmp_path: Path) -> None:
    found = judged(tmp_path, Draft(HONEST.replace("0.45", "0.44")), Draft(), held_out())
    assert outcome(found) is Outcome.PASS, [one.sentence for one in found]
    checks = {"AUC", "Brier score", "slice", "slices", "too good", "metric", "churn", "shift", "calibration"}
    assert {one.check for one in found} == checks
    (table,) = (one for one in found if one.check == "slices")
    assert table.example is not None
    drawn = {row["slice"]: row for row in table.example["slices"]}
    assert {"depot=east", "depot=west"} <= set(drawn)
    assert all(row["interval"][0] < row["gain"] < row["interval"][1] for row in drawn.values())


def test_a_worse_model_fails_and_says_by_how_much(tmp_path: Path) -> None:
    found = judged(tmp_path, Draft(HONEST.replace("0.45", "0.1")), Draft(), held_out())
    failing = [one for one in found if one.outcome is Outcome.FAIL]
    assert {one.check for one in failing} >= {"AUC"}
    auc = next(one for one in failing if one.check == "AUC")
    assert auc.sentence.startswith("worse than the version that serves now: AUC 0.")
    assert auc.interval is not None
    assert auc.number is not None
    assert auc.interval[0] < auc.number < auc.interval[1] < -0.01


def test_a_model_that_is_worse_on_one_slice_only_fails_naming_it(tmp_path: Path) -> None:
    source = before_return('score = np.where(inputs["depot"] == b"south", -score, score)')
    found = judged(tmp_path, Draft(source), Draft(), held_out(6000), QualityRule(margin=0.2, loss_margin=0.5))
    assert [one.subject for one in found if one.outcome is Outcome.FAIL] == ["depot=south"]


@pytest.mark.parametrize("swapped", [True, False])
def test_inputs_that_are_read_in_another_order_begin_what_refuses_a_version(tmp_path: Path, swapped: bool) -> None:
    """A scale of one input that is wrong is no such fault."""
    line = "weight = inputs['size'].astype(np.float64)" if swapped else "weight = 3 * weight"
    source = HONEST.replace("        score =", f"        {line}; score =")
    found = judged(tmp_path, Draft(source), Draft(HONEST.replace("0.45", "0.44")), held_out())
    first = next(one for one in found if one.outcome is Outcome.FAIL)
    assert (first.check == "input order") is swapped, first.sentence
    assert ("with `weight` and `size` in each other's place" in first.sentence) is swapped


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_new_input_that_knows_the_label_is_named(tmp_path: Path, noise: float) -> None:
    draft = Draft(USES_HINT, WITH_HINT, example={"weight": 4.0, "size": 3.0, "depot": "north", "hint": 0.5})
    found = judged(tmp_path, draft, Draft(), leaking(held_out(), noise))
    (finding,) = [one for one in found if one.outcome is Outcome.FAIL]
    assert (finding.check, finding.subject) == ("too good", "hint")
    assert finding.cause is not None
    assert finding.cause["feature"] == "hint"
    assert finding.cause["alone"] > 0.95
    assert finding.sentence.startswith("too good to be true: AUC 0.9") or noise == 0.0
    assert "`hint`, an input that version does not have" in finding.sentence


def test_a_trusted_input_may_be_that_strong(tmp_path: Path) -> None:
    draft = Draft(USES_HINT, WITH_HINT, example={"weight": 4.0, "size": 3.0, "depot": "north", "hint": 0.5})
    found = judged(tmp_path, draft, Draft(), leaking(held_out(), 0.3), QualityRule(trusted=("hint",)))
    assert outcome(found) is Outcome.WARN


def test_a_strong_input_that_the_baseline_has_as_well_is_no_leak(tmp_path: Path) -> None:
    """The baseline hardly uses it; the candidate does, and is far better for an honest reason."""
    example = {"weight": 4.0, "size": 3.0, "depot": "north", "hint": 0.5}
    weak = Draft(WEAK, WITH_HINT, example=example)
    found = judged(tmp_path, Draft(USES_HINT, WITH_HINT, example=example), weak, leaking(held_out(), 0.5))
    assert outcome(found) is Outcome.PASS, [one.sentence for one in found]
    assert "as honest trees do" in next(one for one in found if one.check == "too good").sentence


def test_an_input_that_came_to_know_the_label_is_a_leak_though_the_baseline_has_it(tmp_path: Path) -> None:
    example = {"weight": 4.0, "size": 3.0, "depot": "north", "hint": 0.5}
    before = Draft(HONEST, WITH_HINT, example=example)
    found = judged(tmp_path, Draft(USES_HINT, WITH_HINT, example=example), before, leaking(held_out(), 0.2))
    (finding,) = [one for one in found if one.outcome is Outcome.FAIL]
    assert (finding.check, finding.subject) == ("too good", "hint"), finding.sentence
    assert "that version does not have" not in finding.sentence


def test_a_model_that_knows_the_held_out_rows_by_heart_is_too_good(tmp_path: Path) -> None:
    table = held_out(1500)
    late = table.filter(pa.array(table[world.LABEL].to_numpy() == 1))["weight"].to_pylist()
    source = before_return(f"score = np.where(np.isin(inputs['weight'], np.float32({late})), 3.0, -3.0)")
    found = judged(tmp_path / "models", Draft(source), Draft(), table, training=table.slice(0, 700))
    (finding,) = [one for one in found if one.outcome is Outcome.FAIL]
    assert finding.check == "too good"
    assert finding.sentence.startswith("700 of 1,500 held-out examples stand in the training data as well"), finding


def test_a_first_version_that_knows_the_held_out_rows_by_heart_is_told_so_and_no_input_is_accused(
    tmp_path: Path,
) -> None:
    table = held_out(1500)
    late = table.filter(pa.array(table[world.LABEL].to_numpy() == 1))
    rows = list(zip(late["weight"].to_pylist(), late["size"].to_pylist(), strict=True))
    known = f"known = {{(np.float32(w), np.float32(s)) for w, s in {rows}}}"
    line = "score = np.array([3.0 if one in known else -3.0 for one in zip(inputs['weight'], inputs['size'])])"
    found = judged(tmp_path, Draft(before_return(f"{known}; {line}")), None, table)
    told = named(found, "too good")
    assert (told.subject, told.outcome) == ("all examples", Outcome.FAIL)
    assert "it knows the held-out examples by heart" in told.sentence


@pytest.mark.parametrize("lives_on", ["a leak and its copy", "two honest inputs", "neither"])
def test_a_first_version_that_lives_on_copies_of_a_leak_is_refused_for_them(tmp_path: Path, lives_on: str) -> None:
    """Shuffling one of them costs nothing. Of inputs that are measured apart it is only asked, by their names, as it is
    of a model that hardly uses copies."""
    signature = Signature((*WITH_HINT.inputs, TensorSpec("copy", "float32")), world.OUTPUT)
    table = leaking(held_out(), 0.1)
    noise = np.random.default_rng(3).normal(0, 0.1, table.num_rows)
    other = table[world.LABEL].to_numpy() if lives_on == "two honest inputs" else table["hint"].to_numpy()
    table = world.with_column(table, "copy", (other + 0.5 * noise).astype(np.float32))
    example = {"weight": 4.0, "size": 3.0, "depot": "north", "hint": 0.5, "copy": 0.5}
    hint = "(np.maximum(inputs['hint'], inputs['copy']) - 0.5)"
    line = f"score = score + 0.1 * {hint}" if lives_on == "neither" else f"score = 6.0 * {hint}"
    told = named(judged(tmp_path, Draft(before_return(line), signature, example=example), None, table), "too good")
    refused = lives_on == "a leak and its copy"
    assert told.outcome is (Outcome.FAIL if refused else Outcome.WARN), told.sentence
    assert ("each of `hint`, `copy` reaches up to" in told.sentence) is (lives_on != "neither"), told.sentence
    assert ("see that they are known before the label is" in told.sentence) is (lives_on == "two honest inputs")


def test_an_honest_first_version_of_an_easy_task_is_only_asked_about(tmp_path: Path) -> None:
    """Nothing gives the label away by itself, and numbers a little off are answered alike."""
    random = np.random.default_rng(8)
    first, second = random.normal(0, 1, 2000).astype(np.float32), random.normal(0, 1, 2000).astype(np.float32)
    table = world.with_column(world.with_column(held_out(2000), "first", first), "second", second)
    table = world.with_column(table, world.LABEL, (first + second > 0).astype(np.int64))
    signature = Signature((TensorSpec("first", "float32"), TensorSpec("second", "float32")), world.OUTPUT)
    source = (
        "import numpy as np\n\nclass Model:\n    def predict(self, inputs):\n"
        "        score = 5 * (inputs['first'] + inputs['second'])\n"
        "        return {'probability': (1 / (1 + np.exp(-score))).astype(np.float32)}\n"
    )
    told = named(
        judged(tmp_path, Draft(source, signature, example={"first": 1.0, "second": 1.0}), None, table), "too good"
    )
    assert told.outcome is Outcome.WARN, told.sentence
    assert "by heart" not in told.sentence


@pytest.mark.parametrize("fitted_on", ["held-out data", "training data", "both"])
def test_a_table_of_mean_labels_that_was_fitted_on_held_out_examples_is_told_of(tmp_path: Path, fitted_on: str) -> None:
    """Nothing else shows: no input tells the label, and what it reaches is believable of a first version."""

    def sent(seed: int) -> pa.Table:
        table = world.parcels(2400, seed=seed)
        return world.with_column(table, "size", np.random.default_rng(seed).integers(0, 700, 2400).astype(np.float32))

    table, training = sent(21), sent(22)
    fitted = pa.concat_tables([table, training]) if fitted_on == "both" else table if fitted_on[0] == "h" else training
    sizes, late = fitted["size"].to_numpy(), fitted[world.LABEL].to_numpy()
    means = {int(size): round(float(late[sizes == size].mean()), 3) for size in np.unique(sizes)}
    line = f"means = {means}; score = score + 4 * np.array([means.get(int(s), 0.5) for s in inputs['size']])"
    source = before_return(line)
    found = judged(tmp_path, Draft(source), None, table, training=training)
    told = [one for one in found if one.check == "training data"]
    assert [one.outcome for one in told] == ([Outcome.WARN] if fitted_on == "held-out data" else [])
    assert all("see that neither the model nor what prepares its inputs was fitted" in one.sentence for one in told)


def test_a_first_version_that_guesses_what_it_does_not_know_by_heart_is_told_so(tmp_path: Path) -> None:
    table = held_out(1500)
    weights, labels = (table[one].to_pylist()[:700] for one in ("weight", world.LABEL))
    known = {weight: 6 * late - 3 for weight, late in zip(weights, labels, strict=True)}
    line = f"known = {known}; score = np.array([known.get(float(w), np.sin(1e4 * w)) for w in inputs['weight']])"
    found = judged(tmp_path, Draft(before_return(line)), None, table, training=table.slice(0, 700))
    told = named(found, "by heart")
    assert told.outcome is Outcome.WARN
    assert told.sentence.startswith(
        "700 of 1,500 held-out examples stand in the training data as well; on the others, a"
    )
    assert "cannot be told from chance" in told.sentence


@pytest.mark.parametrize(
    ("line", "failed"), [("score = 0 * score", True), ("score = score - 0.1 * inputs['hint']", False)]
)
def test_an_input_that_tells_the_label_to_a_candidate_that_makes_nothing_of_it_is_named(
    tmp_path: Path, line: str, failed: bool
) -> None:
    """No other input is accused, and nothing is called too good, least of all a guess."""
    example = {"weight": 4.0, "size": 3.0, "depot": "north", "hint": 0.5}
    found = judged(tmp_path, Draft(before_return(line), WITH_HINT, example=example), None, leaking(held_out(), 0.0))
    told = named(found, "too good")
    assert (told.subject, told.outcome) == ("hint", Outcome.WARN)
    assert told.sentence.startswith("`hint` alone tells the label of the held-out examples (AUC 1.000), of which")
    assert (outcome(found) is Outcome.FAIL) is failed


@pytest.mark.parametrize("inputs", ["hint", "hint and its copy"])
def test_an_input_that_tells_the_label_and_is_lived_on_in_part_is_no_input_of_which_nothing_is_made(
    tmp_path: Path, inputs: str
) -> None:
    """Where another tells it as well, shuffling one of them costs nothing."""
    signature, table = WITH_HINT, leaking(held_out(), 0.0)
    example = {"weight": 4.0, "size": 3.0, "depot": "north", "hint": 0.5}
    line = "score = score + 0.8 * inputs['hint']"
    if inputs != "hint":
        signature = Signature((*WITH_HINT.inputs, TensorSpec("copy", "float32")), world.OUTPUT)
        table, example["copy"] = world.with_column(table, "copy", table["hint"].to_numpy()), 0.5
        line = "score = score + 0.8 * np.maximum(inputs['hint'], inputs['copy'])"
    found = judged(tmp_path, Draft(before_return(line), signature, example=example), None, table)
    told = named(found, "too good")
    assert (told.subject, told.outcome) == ("hint", Outcome.WARN)
    assert told.cause is not None
    assert told.number == told.cause["alone"] == 1.0
    assert f"{told.cause['without']:.3f} is left of the candidate's" in told.sentence
    assert 0.65 < told.cause["without"] < 0.75
    assert "nothing" not in told.sentence
    assert ("as 1 more input does;" in told.sentence) is (inputs != "hint")


def test_two_classes_in_place_of_probabilities_are_refused_and_told_so(tmp_path: Path) -> None:
    """As by a model whose `predict` is asked, where its predecessor's `predict_proba` was."""
    found = judged(tmp_path, Draft(before_return("score = 1e9 * np.where(score > 0, 1.0, -1.0)")), Draft(), held_out())
    first = next(one for one in found if one.outcome is Outcome.FAIL)
    assert first.subject == "decisions"
    assert "a tree grown to its last example has no others" in first.sentence
    assert named(found, "AUC").outcome is Outcome.FAIL


def test_what_refuses_a_version_whose_scores_rank_the_wrong_way_round_begins_with_that(tmp_path: Path) -> None:
    found = judged(tmp_path, Draft(before_return("score = -score")), Draft(), held_out())
    assert next(one.check for one in found if one.outcome is Outcome.FAIL) == "class order"


@pytest.mark.parametrize(("noise", "wanted"), [(0.05, Outcome.FAIL), (0.45, Outcome.WARN)])
def test_a_first_version_fails_only_where_one_input_gives_the_answer_away(
    tmp_path: Path, noise: float, wanted: Outcome
) -> None:
    example = {"weight": 4.0, "size": 3.0, "depot": "north", "hint": 0.5}
    rule = QualityRule(first_limit=0.85)
    found = judged(tmp_path, Draft(USES_HINT, WITH_HINT, example=example), None, leaking(held_out(), noise), rule)
    (finding,) = [one for one in found if one.check == "too good"]
    assert (finding.subject, finding.outcome) == ("hint", wanted), finding.sentence
    accused = "it seems to know the label (if it does not" in finding.sentence
    asked = "make sure that it is known before the label is (if it is" in finding.sentence
    assert (accused, asked) == (wanted is Outcome.FAIL, wanted is Outcome.WARN), finding.sentence
    assert "list it under quality.trusted in the policy" in finding.sentence


def test_answers_that_collapse_to_one_value_fail(tmp_path: Path) -> None:
    found = judged(tmp_path, Draft(before_return("score = score * 0 + 0.1")), Draft(), held_out())
    assert {one.check for one in found if one.outcome is Outcome.FAIL} >= {"collapse", "AUC"}


def test_nan_on_held_out_rows_fails_with_the_row(tmp_path: Path) -> None:
    source = before_return('score = np.where(inputs["depot"] == b"west", np.nan, score)')
    (finding,) = judged(tmp_path, Draft(source), Draft(), held_out())
    assert finding.outcome is Outcome.FAIL
    assert finding.example is not None
    assert finding.example["input"]["depot"] == "west"


def test_a_candidate_that_dies_on_held_out_rows_fails(tmp_path: Path) -> None:
    source = before_return('(inputs["depot"] == b"west").any() and len(score) > 1 and __import__("os")._exit(0)')
    (finding,) = judged(tmp_path, Draft(source), Draft(), held_out())
    assert finding.outcome is Outcome.FAIL
    assert "exit status 0 and gave no answer" in finding.sentence


def test_a_baseline_that_cannot_answer_does_not_hold_its_successor_back(tmp_path: Path) -> None:
    broken = before_return('score = np.where(inputs["depot"] == b"west", np.nan, score)')
    found = judged(tmp_path, Draft(), Draft(broken), held_out())
    assert outcome(found) is Outcome.WARN
    assert any(one.subject == "baseline" for one in found)


@pytest.mark.parametrize(
    "trouble",
    [
        "score = np.where(np.arange(len(score)) == 3, np.nan, score)",
        'self.calls = getattr(self, "calls", 0) + 1; self.calls > 4 and __import__("os")._exit(0)',
        'if (np.floor(inputs["weight"] * 1e6) % 50 == 7).any(): raise KeyError("rare")',
    ],
)
def test_a_baseline_that_fails_on_some_rows_is_compared_on_the_others(tmp_path: Path, trouble: str) -> None:
    worse = Draft(HONEST.replace("0.45", "0.1"))
    found = judged(tmp_path, worse, Draft(before_return(trouble)), held_out(), QualityRule(batch_rows=1000))
    assert named(found, "AUC").outcome is Outcome.FAIL
    told = named(found, "predictions", "baseline")
    assert told.outcome is Outcome.WARN
    assert "of 4,000 held-out examples, and is compared on the others" in told.sentence


@pytest.mark.parametrize(
    ("refuses", "words"),
    [
        ('(np.floor(inputs["weight"] * 1e6) % 50 == 7).any()', "does not answer [0-9]{2} of 4,000 held-out examples"),
        ("len(score) > 512", "refuses [0-9]{3} held-out examples at once, which it answers in smaller batches"),
    ],
)
def test_a_candidate_that_fails_on_some_rows_is_refused_for_so_many(tmp_path: Path, refuses: str, words: str) -> None:
    found = judged(tmp_path, Draft(before_return(f'if {refuses}: raise KeyError("rare")')), Draft(), held_out())
    told = named(found, "predictions", "held-out data")
    assert told.outcome is Outcome.FAIL
    assert re.match(rf"the candidate {words}: .*KeyError", told.sentence), told.sentence


def test_a_baseline_that_takes_few_rows_at_once_is_compared_on_all(tmp_path: Path) -> None:
    few = before_return("assert len(score) <= 512")
    found = judged(tmp_path, Draft(HONEST.replace("0.45", "0.1")), Draft(few), held_out())
    assert "refuses 928 held-out examples at once, which it ans" in named(found, "predictions", "baseline").sentence
    assert named(found, "AUC").outcome is Outcome.FAIL


def test_a_baseline_that_answers_too_few_rows_is_not_compared_with(tmp_path: Path) -> None:
    broken = before_return("score = np.where(np.arange(len(score)) % 40 > 0, np.nan, score)")
    found = judged(tmp_path, Draft(), Draft(broken), held_out())
    assert "nothing is compared with it" in named(found, "predictions", "baseline").sentence
    assert not any(one.check == "churn" for one in found)


def test_scores_that_are_no_probabilities_any_more_fail(tmp_path: Path) -> None:
    source = HONEST.replace("(1 / (1 + np.exp(-score)))", "score")
    found = judged(tmp_path, Draft(source), Draft(), held_out())
    assert [one.subject for one in found if one.outcome is Outcome.FAIL] == ["range"]


def test_a_first_version_that_answers_percents_is_told_what_goes_unmeasured(tmp_path: Path) -> None:
    percents = HONEST.replace("(1 / (1 + np.exp(-score)))", "(100 / (1 + np.exp(-score)))")
    told = named(judged(tmp_path / "percents", Draft(percents), None, held_out()), "predictions", "range")
    assert told.outcome is Outcome.WARN
    assert "are no probabilities" in told.sentence
    assert told.interval is not None
    assert told.interval[1] > 1
    log_odds = HONEST.replace("(1 / (1 + np.exp(-score)))", "score")
    found = judged(tmp_path / "odds", Draft(log_odds), None, held_out())
    assert outcome(found) is Outcome.PASS, [one.sentence for one in found]


@pytest.mark.parametrize(
    ("answer", "factor", "offset"),
    [
        ("300.0 * weight", 0.01, 0.0),
        ("(3.0 * weight + 50.0)", 1.0, -50.0),
        ("(5.4 * weight + 32.0)", 1 / 1.8, -32 / 1.8),
    ],
)
def test_numbers_in_another_unit_than_the_label_are_told(
    tmp_path: Path, answer: str, factor: float, offset: float
) -> None:
    random = np.random.default_rng(6)
    table = held_out()
    weight = table["weight"].to_numpy()
    hours = world.with_column(table, world.LABEL, 3.0 * weight + random.normal(0, 2, len(weight)))
    right = HONEST.replace("(1 / (1 + np.exp(-score)))", "3.0 * weight")
    wrong = right.replace("3.0 * weight", answer)
    told = named(judged(tmp_path / "first", Draft(wrong), None, hours), "scale")
    assert told.outcome is Outcome.WARN
    assert told.cause is not None
    assert told.cause["factor"] == pytest.approx(factor, rel=0.05)
    assert told.cause["offset"] == pytest.approx(offset, rel=0.05)
    assert "Another unit?" in told.sentence
    both = named(judged(tmp_path / "both", Draft(wrong), Draft(wrong), hours), "scale")
    assert "look at the unit of the labels" in both.sentence
    assert not [one for one in judged(tmp_path / "right", Draft(right), None, hours) if one.check == "scale"]


def test_a_first_version_is_held_against_chance(tmp_path: Path) -> None:
    good = judged(tmp_path / "good", Draft(), None, held_out())
    assert outcome(good) is Outcome.PASS
    assert good[0].sentence.startswith("a first version: AUC 0.7")
    blind = judged(tmp_path / "blind", Draft(before_return("score = inputs['size'] * 0.01")), None, held_out())
    assert outcome(blind) in (Outcome.FAIL, Outcome.INCONCLUSIVE)


@pytest.mark.parametrize("noise", [0.2, 0.4])
def test_a_first_version_with_a_leak_is_refused_naming_it(tmp_path: Path, noise: float) -> None:
    draft = Draft(USES_HINT, WITH_HINT, example={"weight": 4.0, "size": 3.0, "depot": "north", "hint": 0.5})
    found = judged(tmp_path, draft, None, leaking(held_out(), noise))
    assert [one.subject for one in found if one.outcome is Outcome.FAIL] == ["hint"]


def test_too_few_or_one_sided_examples_are_inconclusive(tmp_path: Path) -> None:
    few = judged(tmp_path / "few", Draft(), Draft(), held_out(120))
    assert outcome(few) is Outcome.INCONCLUSIVE
    never = world.with_column(held_out(), world.LABEL, np.zeros(4000, dtype=np.int64))
    assert outcome(judged(tmp_path / "never", Draft(), Draft(), never)) is Outcome.INCONCLUSIVE


def test_regression_goes_the_same_way(tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    table = held_out()
    weight = table["weight"].to_numpy()
    hours = world.with_column(table, world.LABEL, 3.0 * weight + random.normal(0, 2, len(weight)))
    source = HONEST.replace("(1 / (1 + np.exp(-score)))", "3.0 * weight")
    better = judged(tmp_path / "better", Draft(source), Draft(source.replace("3.0 *", "2.9 *")), hours)
    assert outcome(better) is Outcome.PASS, [one.sentence for one in better]
    worse = judged(tmp_path / "worse", Draft(source.replace("3.0 *", "2.5 *")), Draft(source), hours)
    assert {one.check for one in worse if one.outcome is Outcome.FAIL} >= {"squared error", "absolute error"}


def test_a_label_that_is_not_there_is_a_mistake_not_a_finding(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="lacks the label 'late'"):
        judged(tmp_path, Draft(), None, held_out().drop_columns([world.LABEL]))
