"""A model is judged where it lies: a file that nobody published, data from a frame, no key and no engine."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.support.models.skops_files import write_skops

from tidegate_operators.steps import Evidence, judge
from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.policy import Policy
from tidegate_validation.robustness.limits import RobustnessLimits

QUALITY = Policy(run=("quality",), required=("quality",))


def rows(seed: int, count: int = 3000) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    data = pd.DataFrame({"a": random.normal(size=count), "b": random.normal(size=count)})
    data["late"] = (data["a"] + random.normal(size=count) > 0).astype("int64")
    return data


def model(path: Path, columns: tuple[str, ...] = ("a", "b"), swapped: bool = False) -> Path:
    training = rows(1)
    truth = 1 - training["late"] if swapped else training["late"]
    write_skops(LogisticRegression().fit(training[list(columns)], truth), path)
    return path


def test_a_files_verdict_against_another_file_names_the_worse_one(tmp_path: Path) -> None:
    good, bad = model(tmp_path / "good.skops"), model(tmp_path / "bad.skops", swapped=True)
    held_out = rows(2)
    worse = judge(bad, Evidence(held_out, "late", baseline=good, policy=QUALITY), report=tmp_path / "report")
    assert worse.verdict.outcome is Outcome.FAIL
    assert not worse.verdict.first
    assert worse.report == tmp_path / "report" / "index.html"
    assert worse.report.is_file()
    same = judge(good, Evidence(pl.from_pandas(held_out), "late", baseline=good, policy=QUALITY))
    assert same.verdict.outcome is Outcome.PASS
    assert same.report is None


def test_without_training_data_skew_is_not_made_up_from_the_held_out_rows(tmp_path: Path) -> None:
    policy = Policy(run=("skew",), required=("skew",))
    alone = judge(model(tmp_path / "m.skops"), Evidence(rows(2), "late", policy=policy))
    assert alone.verdict.outcome is Outcome.INCONCLUSIVE
    assert "no training profile" in alone.verdict.sentence
    assert str(alone.verdict.id) == "m:1", "nothing stands before it"


def test_a_log_that_is_not_there_is_no_want_of_one(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"inference log .*typo is no folder: mend the path"):
        judge(model(tmp_path / "m.skops"), Evidence(rows(2), "late", log_root=tmp_path / "typo", policy=QUALITY))


def test_what_is_no_model_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"gone\.onnx is missing"):
        judge(tmp_path / "gone.onnx", Evidence(rows(2), "late"))
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InvalidInput, match="nothing is an empty folder: name one that holds a model"):
        judge(tmp_path / "nothing", Evidence(rows(2), "late"))
    (tmp_path / "model.bin").write_bytes(b"?")
    with pytest.raises(InvalidInput, match="does not tell its platform"):
        judge(tmp_path / "model.bin", Evidence(rows(2), "late"))
    (tmp_path / "model.joblib").write_bytes(b"?")
    with pytest.raises(InvalidInput, match=r"model\.joblib is a pickle.*allow_pickle = true under \[robustness\]"):
        judge(tmp_path / "model.joblib", Evidence(rows(2), "late"))
    (tmp_path / "m" / "7").mkdir(parents=True)
    (tmp_path / "m" / "7" / "manifest.json").write_text("{}")
    with pytest.raises(InvalidInput, match=r"is no version but holds 1: name one, such as .*m/7"):
        judge(tmp_path / "m", Evidence(rows(2), "late"))
    with pytest.raises(InvalidInput, match="fitted on b, which"):
        judge(model(tmp_path / "m.skops"), Evidence(rows(2).drop(columns="b"), "late"))


SIGNATURE = Signature(
    (TensorSpec("a", "float64"), TensorSpec("b", "float64")), (TensorSpec("predict_proba", "float64", (-1, 2)),)
)


def test_a_pickled_model_is_judged_by_a_signature(tmp_path: Path) -> None:
    training = rows(1)
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(LogisticRegression().fit(training[["a", "b"]], training["late"])))
    policy = replace(QUALITY, robustness=RobustnessLimits(allow_pickle=True))
    evidence = Evidence(rows(2), "late", baseline=path, policy=policy)
    judged = judge(path, evidence, signature={"serving_default": SIGNATURE})
    assert judged.verdict.outcome is Outcome.PASS


def test_a_pickled_model_tells_its_signature_where_the_policy_lets_it_be_loaded(tmp_path: Path) -> None:
    training = rows(1)
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(LogisticRegression().fit(training[["a", "b"]], training["late"])))
    evidence = Evidence(rows(2), "late", baseline=path, policy=QUALITY)
    with pytest.raises(InvalidInput, match=r"model\.pkl is a pickle.*allow_pickle = true"):
        judge(path, evidence)
    allowed = replace(QUALITY, robustness=RobustnessLimits(allow_pickle=True))
    assert judge(path, replace(evidence, policy=allowed)).verdict.outcome is Outcome.PASS


@pytest.mark.parametrize(
    "given",
    ["signature.json", SIGNATURE, SIGNATURE.to_dict(), {"serving_default": SIGNATURE.to_dict()}],
    ids=["file", "signature", "what a file holds", "what a file of several holds"],
)
def test_a_python_model_is_judged_by_a_signature(tmp_path: Path, given: Any) -> None:
    (tmp_path / "model.py").write_text(
        "import numpy as np\n\n\nclass Model:\n    def __init__(self, directory):\n        pass\n\n"
        "    def predict(self, inputs):\n"
        "        one = 1 / (1 + np.exp(-2 * inputs['a']))\n"
        "        return {'predict_proba': np.stack([1 - one, one], axis=1)}\n"
    )
    (tmp_path / "signature.json").write_text(json.dumps(SIGNATURE.to_dict()))
    judged = judge(
        tmp_path / "model.py",
        Evidence(rows(2), "late", policy=QUALITY),
        platform="python",
        signature=tmp_path / given if isinstance(given, str) else given,
    )
    assert judged.verdict.outcome is Outcome.PASS


def test_a_python_model_is_judged_against_one_of_another_platform(tmp_path: Path) -> None:
    """Platform and signature are the candidate's."""
    (tmp_path / "model.py").write_text(
        "import numpy as np\n\n\nclass Model:\n    def predict(self, inputs):\n"
        "        one = 1 / (1 + np.exp(-1.7 * inputs['a']))\n"
        "        return {'predict_proba': np.stack([1 - one, one], axis=1)}\n"
    )
    evidence = Evidence(rows(2), "late", baseline=model(tmp_path / "good.skops"), policy=QUALITY)
    judged = judge(tmp_path / "model.py", evidence, platform="python", signature=SIGNATURE)
    assert judged.verdict.outcome is Outcome.PASS
    assert not judged.verdict.first


def test_a_model_of_another_platform_is_judged_against_a_python_model(tmp_path: Path) -> None:
    """Which tells neither its platform nor its signature, while the candidate tells both."""
    (tmp_path / "before.py").write_text(
        "import numpy as np\n\n\nclass Model:\n    def predict(self, inputs):\n"
        "        one = 1 / (1 + np.exp(-1.7 * inputs['a']))\n"
        "        return {'predict_proba': np.stack([1 - one, one], axis=1)}\n"
    )
    candidate = model(tmp_path / "good.skops")
    evidence = Evidence(rows(2), "late", baseline=tmp_path / "before.py", policy=QUALITY)
    judged = judge(candidate, evidence, baseline_platform="python", baseline_signature=SIGNATURE)
    assert judged.verdict.outcome is Outcome.PASS, judged.verdict.sentence
    assert not judged.verdict.first
    with pytest.raises(InvalidInput, match=r"before\.py does not tell its platform.* baseline_platform"):
        judge(candidate, evidence)
    for given in ({"baseline_platform": "python"}, {"baseline_signature": SIGNATURE}):
        with pytest.raises(InvalidInput, match="there is no baseline: give one"):
            judge(candidate, replace(evidence, baseline=None), **given)


def test_a_python_model_is_judged_against_a_pickle_where_the_policy_lets_it(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import numpy as np\n\n\nclass Model:\n    def predict(self, inputs):\n"
        "        one = 1 / (1 + np.exp(-1.7 * inputs['a']))\n"
        "        return {'predict_proba': np.stack([1 - one, one], axis=1)}\n"
    )
    training = rows(1)
    estimator = LogisticRegression().fit(training[["a", "b"]], training["late"])
    (tmp_path / "before.pkl").write_bytes(pickle.dumps(estimator))
    policy = replace(QUALITY, robustness=RobustnessLimits(allow_pickle=True))
    evidence = Evidence(rows(2), "late", baseline=tmp_path / "before.pkl", policy=policy)
    judged = judge(tmp_path / "model.py", evidence, platform="python", signature=SIGNATURE)
    assert judged.verdict.outcome is Outcome.PASS
    refused = replace(evidence, policy=QUALITY)
    with pytest.raises(InvalidInput, match=r"before\.pkl is a pickle, which can run any code"):
        judge(tmp_path / "model.py", refused, platform="python", signature=SIGNATURE)


@pytest.mark.parametrize("made_by", [None, "0.24.2"])
def test_a_pickle_of_another_version_of_scikit_learn_gets_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made_by: str | None
) -> None:
    training = rows(1)
    estimator = LogisticRegression().fit(training[["a", "b"]], training["late"])
    with monkeypatch.context() as patched:
        if made_by is not None:
            patched.setattr("sklearn.base.__version__", made_by)
        (tmp_path / "model.pkl").write_bytes(pickle.dumps(estimator))
    policy = Policy(run=("robustness",), required=("robustness",), robustness=RobustnessLimits(allow_pickle=True))
    judged = judge(tmp_path / "model.pkl", Evidence(rows(2), "late", policy=policy), signature=SIGNATURE)
    told = [one.sentence for one in judged.verdict.gates[0].findings if (one.check, one.subject) == ("files", "pickle")]
    assert judged.verdict.outcome is (Outcome.PASS if made_by is None else Outcome.WARN), judged.verdict.sentence
    assert len(told) == (made_by is not None)
    assert all(f"was made by scikit-learn {made_by}, and {sklearn.__version__} loads it" in one for one in told)


def test_the_policy_says_which_of_several_outputs_is_judged(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "class Model:\n    def __init__(self, directory):\n        pass\n\n"
        "    def predict(self, inputs):\n        return {'delay': inputs['a'], 'effort': -inputs['a']}\n"
    )
    outputs = TensorSpec("delay", "float64"), TensorSpec("effort", "float64")
    signature = Signature((TensorSpec("a", "float64"), TensorSpec("b", "float64")), outputs)

    def judged(output: str) -> Outcome:
        policy = replace(QUALITY, quality=replace(QUALITY.quality, output=output))
        evidence = Evidence(rows(2), "late", policy=policy)
        return judge(tmp_path / "model.py", evidence, platform="python", signature=signature).verdict.outcome

    assert judged("delay") is Outcome.PASS
    assert judged("effort") is Outcome.FAIL


def test_columns_that_a_pipeline_drops_are_not_asked_for(tmp_path: Path) -> None:
    """As scikit-learn itself: a column transformer answers frames without the columns that it drops."""
    training = rows(1).assign(note=1.0, id=range(3000))
    features = training[["id", "a", "note", "b"]]
    kept = ColumnTransformer([("scaled", StandardScaler(), ["a", "b"]), ("out", "drop", ["note"])])
    pipeline = make_pipeline(kept, LogisticRegression()).fit(features, training["late"])
    pipeline.predict(rows(2)[["a", "b"]])
    write_skops(pipeline, tmp_path / "pipeline.skops")
    judged = judge(tmp_path / "pipeline.skops", Evidence(rows(2), "late", policy=QUALITY))
    assert judged.verdict.outcome is Outcome.PASS
    whole = ColumnTransformer([("scaled", StandardScaler(), ["a"])], remainder="passthrough")
    write_skops(make_pipeline(whole, LogisticRegression()).fit(features, training["late"]), tmp_path / "whole.skops")
    with pytest.raises(InvalidInput, match="fitted on id, note, which"):
        judge(tmp_path / "whole.skops", Evidence(rows(2), "late", policy=QUALITY))


def test_what_cannot_be_written_at_the_end_is_told_before_any_gate_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="file/report"):
        judge(tmp_path / "no.onnx", Evidence(rows(2)), report=tmp_path / "file" / "report")
