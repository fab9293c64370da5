"""The quality gate on classes, rankings and labels of every type, each model in a real probe process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.validation import world
from tests.validation.quality.judged import failing, judged, named, outcome
from tests.validation.world import HONEST, Draft, before_return

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.quality.leakage.overlap import overlap
from tidegate_validation.quality.rule import QualityRule

SPECIES = ("bee", "fly", "wasp")
SEEN = (TensorSpec("size", "float32"), TensorSpec("tone", "float32"), TensorSpec("place", "string"))
MATRIX = Signature(SEEN, (TensorSpec("chances", "float32", (-1, 3)),))
EXAMPLE = {"size": 1.0, "tone": 0.5, "place": "wood"}
KNOWS = """
import numpy as np

class Model:
    def predict(self, inputs):
        size, tone = inputs["size"].astype(float), inputs["tone"].astype(float)
        score = np.column_stack([2 * size, 2 * tone, -2 * (size + tone)])
        chance = np.exp(score - score.max(axis=1, keepdims=True))
        chance = chance / chance.sum(axis=1, keepdims=True)
        return {"chances": chance.astype(np.float32)}
"""


def insects(rows: int = 4000, seed: int = 3) -> pa.Table:
    """Insects of three species, told by size and tone as well as can be."""
    random = np.random.default_rng(seed)
    size, tone = random.normal(0, 1, rows), random.normal(0, 1, rows)
    score = np.column_stack([2 * size, 2 * tone, -2 * (size + tone)])
    kind = (score + random.gumbel(0, 1, score.shape)).argmax(axis=1)
    places = random.choice(["wood", "field", "town"], rows, p=[0.5, 0.3, 0.2])
    return pa.table(
        {
            "size": size.astype(np.float32),
            "tone": tone.astype(np.float32),
            "place": places,
            world.LABEL: np.array(SPECIES)[kind],
        }
    )


def draft(line: str = "pass", signature: Signature = MATRIX, **metadata: str) -> Draft:
    """The model that knows, with a line before it answers."""
    source = KNOWS.replace("        return", f"        {line}\n        return")
    return Draft(
        source, signature, example=EXAMPLE, metadata={key.replace("_", "."): text for key, text in metadata.items()}
    )


def test_an_equal_model_of_several_classes_passes_with_all_metrics(tmp_path: Path) -> None:
    blend = draft("chance = 0.98 * chance + 0.02 / 3")
    found = judged(tmp_path, blend, draft(), insects())
    assert outcome(found) is Outcome.PASS, [one.sentence for one in found]
    metrics = {one.subject for one in found if one.check == "metric"}
    assert metrics == {
        "AUC", "Brier score", "log loss", "accuracy", "balanced accuracy", "macro F1", "micro F1", "calibration error",
    }  # fmt: skip
    assert named(found, "accuracy").sentence.startswith("no worse than the version that serves now: accuracy 0.")


@pytest.mark.parametrize("named_before", [False, True])
def test_a_class_that_is_new_holds_no_version_back(tmp_path: Path, named_before: bool) -> None:
    """A version that serves and names no classes cannot be compared on four; nobody can name them any more."""
    table = insects()
    ants = np.random.default_rng(7).random(table.num_rows) < 0.05
    table = world.with_column(table, world.LABEL, np.where(ants, "ant", table[world.LABEL].to_numpy()))
    four = Signature(SEEN, (TensorSpec("chances", "float32", (-1, 4)),))
    line = "chance = np.column_stack([np.full(len(size), 0.05), 0.95 * chance])"
    before = draft(classes="bee,fly,wasp") if named_before else draft()
    found = judged(tmp_path, draft(line, four), before, table)
    assert outcome(found) is (Outcome.PASS if named_before else Outcome.WARN), [one.sentence for one in found]
    told = [one.sentence for one in found if one.outcome is Outcome.WARN]
    assert [
        "cannot answer the held-out examples, so nothing is compared with it: output 'chances'" in one for one in told
    ] == [True] * (not named_before)


def test_classes_in_another_order_are_told_apart_by_metadata(tmp_path: Path) -> None:
    turned = "chance = chance[:, [2, 0, 1]]"
    confused = judged(tmp_path / "confused", draft(turned), draft(), insects())
    assert ("accuracy", "all examples") in failing(confused)
    told = judged(tmp_path / "told", draft(turned, classes="wasp,bee,fly"), draft(), insects())
    assert outcome(told) is Outcome.PASS, [one.sentence for one in told]


def test_predicted_labels_alone_are_judged_by_accuracy(tmp_path: Path) -> None:
    words = Signature(SEEN, (TensorSpec("species", "string"),))
    source = KNOWS.replace(
        'return {"chances": chance.astype(np.float32)}',
        'return {"species": np.array([b"bee", b"fly", b"wasp"], dtype=object)[chance.argmax(axis=1)]}',
    )
    equal = judged(tmp_path / "equal", Draft(source, words, example=EXAMPLE), draft(), insects())
    assert outcome(equal) in (Outcome.PASS, Outcome.WARN), [one.sentence for one in equal]
    assert {one.check for one in equal if one.subject == "all examples"} == {"accuracy", "too good"}
    blind = Draft(
        source.replace("[chance.argmax(axis=1)]", "[(chance * [1, 1, 0]).argmax(axis=1)]"), words, example=EXAMPLE
    )
    assert ("accuracy", "all examples") in failing(judged(tmp_path / "blind", blind, draft(), insects()))


def test_scores_that_have_become_decisions_are_refused_and_told_so(tmp_path: Path) -> None:
    decided = "chance = np.eye(chance.shape[1])[chance.argmax(axis=1)]"
    refused = judged(tmp_path / "refused", draft(decided), draft(), insects())
    first = next(one for one in refused if one.outcome is Outcome.FAIL)
    assert (first.check, first.subject) == ("predictions", "decisions")
    assert "call predict_proba in place of predict" in first.sentence
    assert named(refused, "accuracy").outcome is Outcome.PASS
    both = judged(tmp_path / "both", draft(decided), draft(decided), insects())
    assert outcome(both) is Outcome.PASS, [one.sentence for one in both if one.outcome is not Outcome.PASS]


def test_a_class_that_swallows_all_others_is_a_collapse(tmp_path: Path) -> None:
    found = judged(tmp_path, draft("chance = 0.01 * chance + 0.99 * np.eye(3)[1]"), draft(), insects())
    collapse = named(found, "collapse")
    assert collapse.outcome is Outcome.FAIL
    assert "the class `fly`, to 100.0 %" in collapse.sentence


def test_a_slice_that_is_worse_is_named_and_the_rest_is_not(tmp_path: Path) -> None:
    line = 'chance = np.where((inputs["place"] == b"field")[:, None], chance[:, [1, 0, 2]], chance)'
    found = judged(tmp_path, draft(line), draft(), insects(6000), QualityRule(margin=0.5, loss_margin=2.0))
    assert failing(found) == [("slice", "place=field")]
    cause = named(found, "slice").cause
    assert cause is not None
    assert cause["slice"] == "place=field"


def test_a_label_leak_among_several_classes_is_named(tmp_path: Path) -> None:
    table = insects(3000)
    places = np.searchsorted(SPECIES, table[world.LABEL].to_numpy(zero_copy_only=False).astype(str))
    noise = np.random.default_rng(8).normal(0, 0.15, 3000)
    table = world.with_column(table, "hint", (places + noise).astype(np.float32))
    leaky = Signature((*SEEN, TensorSpec("hint", "float32")), MATRIX.outputs)
    source = before_wasp('near = -20 * (inputs["hint"][:, None] - np.arange(3)) ** 2; chance = np.exp(near)')
    example = {**EXAMPLE, "hint": 0.0}
    found = judged(tmp_path, Draft(source, leaky, example=example), draft(), table)
    finding = named(found, "too good")
    assert (finding.outcome, finding.subject) == (Outcome.FAIL, "hint"), finding.sentence
    assert finding.cause is not None
    assert finding.cause["alone"] > 0.95


def before_wasp(line: str) -> str:
    return KNOWS.replace("        chance = chance /", f"        {line}\n        chance = chance /")


def test_names_that_no_label_has_are_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="answers none of the classes bee, fly, wasp"):
        judged(tmp_path, draft(classes="x,y,z"), None, insects(600))


def test_logarithms_of_probabilities_are_judged_by_the_same_classes_and_refused_for_their_range(tmp_path: Path) -> None:
    found = judged(tmp_path, draft("chance = np.log(chance + 1e-9)"), draft(), insects())
    assert named(found, "accuracy").outcome is Outcome.PASS
    assert "collapse" not in {check for check, _ in failing(found)}
    assert ("predictions", "range") in failing(found)


@pytest.mark.parametrize("kind", ["text", "truth"])
def test_two_classes_may_be_words_or_truth_values(tmp_path: Path, kind: str) -> None:
    table = world.parcels(4000, seed=21)
    late = table[world.LABEL].to_numpy() == 1
    labels = np.where(late, "late", "punctual") if kind == "text" else late
    rule = QualityRule(positive="late") if kind == "text" else QualityRule()
    table = world.with_column(table, world.LABEL, labels)
    found = judged(tmp_path / "equal", Draft(HONEST.replace("0.45", "0.44")), Draft(), table, rule)
    assert outcome(found) is Outcome.PASS, [one.sentence for one in found]
    worse = judged(tmp_path / "worse", Draft(HONEST.replace("0.45", "0.1")), Draft(), table, rule)
    assert ("AUC", "all examples") in failing(worse)


SHOPS = Signature((TensorSpec("price", "float32"), TensorSpec("fit", "float32")), (TensorSpec("score", "float32"),))
RANKS = """
import numpy as np

class Model:
    def predict(self, inputs):
        score = inputs["fit"] - 0.1 * inputs["price"]
        return {"score": score.astype(np.float32)}
"""


def offers(queries: int = 400, seed: int = 5) -> pa.Table:
    """Ten offers for each of many searches, with how relevant each was."""
    random = np.random.default_rng(seed)
    rows = 10 * queries
    fit, price = random.normal(0, 1, rows), random.normal(0, 1, rows)
    relevance = np.clip(np.round(fit - 0.1 * price + random.normal(0, 0.7, rows)), 0, 3)
    searches = np.repeat([f"s{number}" for number in range(queries)], 10)
    market = np.repeat(random.choice(["north", "south"], queries), 10)
    return pa.table(
        {
            "price": price.astype(np.float32),
            "fit": fit.astype(np.float32),
            "search": searches,
            "market": market,
            world.LABEL: relevance.astype(np.int64),
        }
    )


def ranked(line: str = "pass") -> Draft:
    source = RANKS.replace("        return", f"        {line}\n        return")
    return Draft(source, SHOPS, example={"price": 0.0, "fit": 0.0})


def test_rankings_are_judged_by_query(tmp_path: Path) -> None:
    rule = QualityRule(group="search", slice_columns=("market",))
    equal = judged(tmp_path / "equal", ranked("score = score * 2 + 1"), ranked(), offers(), rule)
    assert outcome(equal) is Outcome.PASS, [one.sentence for one in equal]
    assert {one.subject for one in equal if one.check == "metric"} == {"NDCG", "MAP", "MRR"}
    assert "(gain +0.000" in named(equal, "NDCG").sentence
    assert " queries in 40 buckets of `search`)" in named(equal, "NDCG").sentence
    worse = judged(tmp_path / "worse", ranked('score = -inputs["price"]'), ranked(), offers(), rule)
    assert ("NDCG", "all examples") in failing(worse)
    with pytest.raises(InvalidInput, match=r"quality\.group names column 'seller'"):
        judged(tmp_path / "none", ranked(), None, offers(), QualityRule(group="seller"))


def test_numbers_have_their_metrics_and_a_first_version_is_a_rubber_stamp(tmp_path: Path) -> None:
    table = world.parcels(3000, seed=21)
    weight = table["weight"].to_numpy().astype(float)
    table = world.with_column(table, world.LABEL, weight + np.random.default_rng(6).normal(0, 1, 3000))
    source = HONEST.replace("(1 / (1 + np.exp(-score)))", "weight")
    found = judged(tmp_path, Draft(source), None, table)
    assert outcome(found) is Outcome.PASS, [one.sentence for one in found]
    assert named(found, "first version").subject == "RUBBER-STAMP"
    metrics = {one.subject for one in found if one.check == "metric"}
    assert metrics == {"squared error", "absolute error", "root mean squared error", "R²", "quantile loss"}


def test_held_out_examples_from_training_are_noticed(tmp_path: Path) -> None:
    table, training = world.parcels(3000, seed=21), world.parcels(3000, seed=22)
    mixed = pa.concat_tables([training, table.slice(0, 600)])
    finding = named(judged(tmp_path / "mixed", Draft(), Draft(), table, training=mixed), "held-out data")
    assert (finding.subject, finding.outcome, finding.number) == ("overlap", Outcome.WARN, 0.2)
    apart = judged(tmp_path / "apart", Draft(), Draft(), table, training=training)
    assert not any(one.check == "held-out data" for one in apart)
    coarse = table.select(["depot", world.LABEL])
    assert overlap(coarse, training) is None


@pytest.mark.parametrize("rows", [1000, 4000])
def test_pairs_that_a_large_training_holds_by_chance_are_no_leak(rows: int) -> None:
    random = np.random.default_rng(5)

    def pairs(count: int, users: int) -> pa.Table:
        return pa.table({"user": random.integers(0, users, count), "item": random.integers(0, 500, count)})

    training = pairs(40_000, 1500)
    assert overlap(pairs(rows, 1500), training) is None
    leaked = pa.concat_tables([pairs(rows, 1500), training.slice(0, rows)])
    found = overlap(leaked, training)
    assert found is not None
    assert found.finding.outcome is Outcome.WARN
    assert found.finding.number == found.known.mean()
    assert found.known[rows:].all()
    assert found.known[:rows].mean() < 0.5


@pytest.mark.parametrize("first", [True, False])
def test_what_is_known_by_heart_hides_nothing_of_the_rows_that_training_did_not_hold(
    tmp_path: Path, first: bool
) -> None:
    """It knows half of the rows, and guesses the others; no such rows are left out where all of them were seen."""
    table, other = world.parcels(3000, seed=21), world.parcels(3000, seed=22)
    mixed = pa.concat_tables([table.slice(0, 1500), other.slice(0, 1500)])
    late = table.filter(pa.array(table[world.LABEL].to_numpy() == 1))
    rows = list(zip(late["weight"].to_pylist(), late["size"].to_pylist(), strict=True))
    line = (
        f"known = {{(np.float32(w), np.float32(s)) for w, s in {rows}}}; "
        "score = np.array([3.0 if one in known else -0.5 for one in zip(inputs['weight'], inputs['size'])])"
    )
    baseline = None if first else Draft()
    found = judged(tmp_path / "mixed", Draft(before_return(line)), baseline, mixed, training=table)
    told = [one for one in found if one.check == "by heart"]
    assert told[0].outcome is Outcome.FAIL
    assert told[0].sentence.startswith("1,500 of 3,000 held-out examples stand in the training data as well; on the ")
    assert ("is no better than chance" if first else "worse than the version that serves now") in told[0].sentence
    honest = judged(tmp_path / "honest", Draft(), baseline, mixed, training=table)
    assert outcome(honest) is Outcome.WARN
    assert not any(one.check == "by heart" for one in honest)


def test_scores_of_several_classes_that_add_up_to_something_else_are_a_warning(tmp_path: Path) -> None:
    found = judged(tmp_path / "off", draft("chance = chance * [0.9, 0.5, 0.7]"), None, insects())
    told = named(found, "predictions", "range")
    assert (told.outcome, told.interval is not None and told.interval[1] <= 0.9) == (Outcome.WARN, True)
    assert "and not to 1" in told.sentence
    even = judged(tmp_path / "even", draft(), None, insects())
    assert not any(one.check == "predictions" for one in even)


def test_answers_that_hardly_differ_are_a_collapse(tmp_path: Path) -> None:
    found = judged(tmp_path, Draft(before_return("score = 0.001 * score")), Draft(), world.parcels(3000, seed=21))
    collapse = named(found, "collapse")
    assert collapse.outcome is Outcome.FAIL
    assert "hardly differ" in collapse.sentence
