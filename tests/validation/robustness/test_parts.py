"""The robustness gate's parts on their own: narrowing, growth, quantiles, the rule, kept inputs and their replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.validation import world
from tests.validation.robustness.fault_cases import KNOWN, fault
from tests.validation.robustness.fault_run import examined
from tests.validation.world import HONEST, Draft
from typer.testing import CliRunner

from tidegate_pipelines.cli.app import app
from tidegate_serving.admission.verdict import Outcome
from tidegate_serving.contract.errors import InvalidInput, NotFound, Tampered
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.robustness.failing_inputs import (
    FailingInput,
    Origin,
    Way,
    read_failing_input,
    write_failing_input,
)
from tidegate_validation.robustness.growth import keeps_growing
from tidegate_validation.robustness.judgement import judge_answer
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.robustness.narrow import narrow
from tidegate_validation.robustness.probes import Likelihood
from tidegate_validation.robustness.replay import replay
from tidegate_validation.robustness.stages.latency import quantile_interval, ratio_interval
from tidegate_validation.sandbox.answer import Answer, AnswerKind
from tidegate_validation.sandbox.examples import Examples, examples_of

OUTPUTS = Answer(AnswerKind.OUTPUTS, outputs={"y": np.array([1.0])})
NAN = Answer(AnswerKind.OUTPUTS, outputs={"y": np.array([np.nan])})
DIED = Answer(AnswerKind.DIED, words="was ended by SIGSEGV")


def refused(*raised: str) -> Answer:
    return Answer(AnswerKind.REFUSED, words="no", raised=raised)


def rows(**columns: list[float]) -> Examples:
    arrays = {name: np.array(values) for name, values in columns.items()}
    return Examples(arrays, np.arange(len(next(iter(arrays.values())))))


class FragileVersion:
    """A version that dies of some rows, and counts how often it was asked."""

    def __init__(self, dies: object) -> None:
        self.dies = dies
        self.times = 0

    def __call__(self, batch: Examples) -> Answer:
        self.times += 1
        return DIED if self.dies(batch.arrays) else OUTPUTS  # type: ignore[operator]


def narrowed(batch: Examples, dies: object) -> tuple[dict[str, list[float]], dict[str, float], int]:
    version = FragileVersion(dies)
    good = rows(a=[0.0], b=[0.0], c=[0.0])
    culprit = narrow(batch, DIED, good, version, lambda answer: answer.fatal)
    return {name: array.tolist() for name, array in culprit.example.arrays.items()}, culprit.changed, version.times


def test_one_row_and_one_column_are_found() -> None:
    numbers = [float(number) for number in range(1, 65)]
    batch = rows(a=numbers, b=[2 * number for number in numbers], c=[0.0] * 64)
    example, changed, times = narrowed(batch, lambda arrays: (arrays["b"] == 74).any())
    assert example == {"a": [0.0], "b": [74.0], "c": [0.0]}
    assert changed == {"b": 74.0}
    assert times < 30


def test_columns_that_only_fail_together_are_kept_together() -> None:
    batch = rows(a=[1.0, 5.0, 1.0], b=[1.0, 7.0, 1.0], c=[3.0, 3.0, 3.0])
    example, changed, _ = narrowed(batch, lambda arrays: ((arrays["a"] == 5) & (arrays["b"] == 7)).any())
    assert changed == {"a": 5.0, "b": 7.0}
    assert example["c"] == [0.0], "taken back to the good row's value"


def test_rows_that_only_fail_together_are_kept_together() -> None:
    batch = rows(a=[0.0] * 5 + [4.0] + [0.0] * 20 + [9.0] + [0.0] * 3, b=[1.0] * 30, c=[1.0] * 30)
    example, _, times = narrowed(batch, lambda arrays: 4 in arrays["a"] and 9 in arrays["a"])
    assert example["a"] == [4.0, 9.0]
    assert times < 100


@pytest.mark.parametrize(
    ("counts", "grows"),
    [
        ([6] * 160, False),
        ([6 + call for call in range(160)], True),
        ([6 + call // 8 for call in range(160)], True),
        ([6 + min(call, 40) for call in range(160)], False),
        ([6 + call % 5 for call in range(160)], False),
        ([6] * 150 + [12] * 10, False),
    ],
    ids=["flat", "each call", "each eighth", "a pool that fills", "to and fro", "one step"],
)
def test_what_fills_up_is_no_leak(counts: list[int], grows: bool) -> None:
    assert keeps_growing(counts) is grows


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_quantile_lies_in_its_interval(share: float) -> None:
    random = np.random.default_rng(5)
    truth = -np.log(1 - share)
    held = [
        low <= truth <= high
        for low, high in (quantile_interval(random.exponential(size=400), share) for _ in range(400))
    ]
    assert 0.97 <= np.mean(held) <= 1.0


def test_a_ratio_is_found_in_noise() -> None:
    random = np.random.default_rng(6)
    ratio, low, high = ratio_interval(random.lognormal(np.log(3), 0.2, 60), random.lognormal(0, 0.2, 60))
    assert low < 3 < high
    assert low <= ratio <= high
    assert low > 2.5


@pytest.mark.parametrize(
    ("likelihood", "answer", "baseline", "outcome"),
    [
        (Likelihood.EXTREME, DIED, None, Outcome.FAIL),
        (Likelihood.EVERYDAY, NAN, None, Outcome.FAIL),
        (Likelihood.RARE, NAN, None, Outcome.FAIL),
        (Likelihood.RARE, NAN, NAN, Outcome.WARN),
        (Likelihood.EXTREME, NAN, None, Outcome.WARN),
        (Likelihood.EVERYDAY, refused("ValueError", "Exception"), None, Outcome.FAIL),
        (Likelihood.EVERYDAY, refused("ValueError", "Exception"), refused("ValueError"), Outcome.WARN),
        (Likelihood.RARE, refused("ValueError", "Exception"), None, Outcome.PASS),
        (Likelihood.RARE, refused("InvalidArgument", "Exception"), None, Outcome.PASS),
        (Likelihood.EXTREME, refused("KeyError", "LookupError", "Exception"), None, Outcome.FAIL),
        (Likelihood.EXTREME, refused("RuntimeError", "Exception"), None, Outcome.FAIL),
        (Likelihood.EXTREME, refused("XlaError", "RuntimeError", "Exception"), None, Outcome.PASS),
        (
            Likelihood.EXTREME,
            refused("OverflowError", "ArithmeticError", "Exception"),
            refused("ValueError"),
            Outcome.WARN,
        ),
        (Likelihood.MALFORMED, refused("InvalidInput", "TidegateError", "Exception"), None, Outcome.PASS),
        (Likelihood.MALFORMED, OUTPUTS, None, Outcome.WARN),
        (Likelihood.EXTREME, OUTPUTS, None, Outcome.PASS),
    ],
)
def test_the_rule(likelihood: Likelihood, answer: Answer, baseline: Answer | None, outcome: Outcome) -> None:
    assert judge_answer(likelihood, answer, baseline) is outcome


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"call_seconds": 0.0}, "the limit call_seconds is 0.0"),
        ({"slower_counts": "NO"}, "slower_counts is 'NO': use one of FAIL"),
    ],
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        RobustnessLimits(**limits)


def test_a_failing_input_survives_its_file(tmp_path: Path) -> None:
    tensors = {"x": np.array([[1.5, np.nan]], dtype=np.float32), "s": np.array([b"\xff"], dtype=object)}
    failed = FailingInput("after", "x", Way.THEN, tensors, then={"x": np.array([2], dtype=np.int64)}, calls=((0, 1),))
    origin = Origin(tmp_path, "parcels:2", "ab" * 32, "serving_default", RobustnessLimits(call_seconds=3.5))
    write_failing_input(tmp_path / "one", failed, origin)
    again, back = read_failing_input(tmp_path / "one")
    assert back == origin
    assert (again.check, again.way, again.calls) == ("after", Way.THEN, ((0, 1),))
    np.testing.assert_array_equal(again.tensors["x"], tensors["x"])
    assert again.tensors["s"].tolist() == [b"\xff"]
    assert again.then is not None
    assert again.then["x"].tolist() == [2]
    (tmp_path / "other").write_bytes(b"\x00\x00\x00\x05hello")
    with pytest.raises(InvalidInput, match="holds no failing input"):
        read_failing_input(tmp_path / "other")
    with pytest.raises(NotFound):
        read_failing_input(tmp_path / "nowhere")


def test_a_refused_version_is_tried_again_by_the_command_of_its_verdict(tmp_path: Path) -> None:
    line = f"if set(inputs['depot'].tolist()) - {KNOWN}: __import__('os')._exit(7)"
    earlier = tmp_path / "report" / "failing-inputs" / "01-threads-calls.input"
    earlier.parent.mkdir(parents=True)
    earlier.touch()
    run = examined(tmp_path, fault(line, "boundary", words="exit status 7"))
    assert not run.wrong
    (finding,) = (one for one in run.findings if one.outcome is Outcome.FAIL)
    assert finding.example is not None
    assert not earlier.exists(), "it is of another examination"
    command = str(finding.example["replay"]).split()
    assert command[:2] == ["tidegate", "replay"]
    again = CliRunner().invoke(app, command[1:])
    assert again.exit_code == 1
    assert "ended with exit status 7" in again.output
    mended = world.publish(tmp_path / "mended", 2, Draft(source=HONEST))
    passes = CliRunner().invoke(app, [*command[1:], "--directory", str(mended)])
    assert passes.exit_code == 0
    assert "finite numbers" in passes.output
    manifest = Path(str(finding.example["file"])).parents[2] / "parcels" / "2" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes() + b" ")
    with pytest.raises(Tampered, match="no longer"):
        replay(Path(command[2]))


def test_a_moment_in_nanoseconds_becomes_seconds() -> None:
    table = pa.table({"sent_at": pa.array([1_500_000_000_123_456_789], pa.timestamp("ns"))})
    signature = Signature((TensorSpec("sent_at", "float64"),), (TensorSpec("y", "float32"),))
    assert examples_of(signature, table).arrays["sent_at"].tolist() == [1_500_000_000.0]
