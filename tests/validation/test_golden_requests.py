"""Golden requests: recorded from a log, published with a version, and held against what a candidate answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.validation import world
from tests.validation.world import HONEST, Draft, before_return

from tidegate_operators.steps.publish import Publication, publish
from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract import log_record
from tidegate_serving.contract.errors import InvalidInput, NotFound, Unsupported
from tidegate_serving.contract.repository import golden_path
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec
from tidegate_validation.case import Case, Version
from tidegate_validation.evidence import Evidence, open_case
from tidegate_validation.golden_requests import GoldenRequests, Recording, read_golden_requests, record_golden_requests
from tidegate_validation.policy import Policy
from tidegate_validation.robustness.gate import examine
from tidegate_validation.robustness.input_domain import input_domains
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.robustness.output_range import OutputRange
from tidegate_validation.robustness.tolerance import Tolerance

LIMITS = RobustnessLimits(
    load_seconds=60, call_seconds=10, max_batch=16, sample_rows=50, golden_rows=2, threads=1, total_seconds=60
)
WHO = Recording(world.NAME, 1, requests=20)


def answered(table: pa.Table) -> np.ndarray[Any, Any]:
    """What the honest model answers."""
    weight = np.clip(table["weight"].to_numpy().astype(np.float64), -50, 50)
    east = np.array(table["depot"].to_pylist()) == "east"
    return np.asarray(1 / (1 + np.exp(-(0.45 * (weight - 5.0) + 0.8 * east))), dtype=np.float32)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Thirty requests of two rows each to version 1: one of them failed, of one a row is missing, one was shadowed."""
    table = world.parcels(60, seed=5)
    status = np.zeros(60, dtype=np.int32)
    status[7] = 13
    columns: dict[str, Any] = {
        log_record.REQUEST_ID: [f"r{row // 2:02d}" for row in range(60)],
        log_record.ROW: pa.array([row % 2 for row in range(60)], pa.int32()),
        log_record.ROLE: ["shadow" if row // 2 == 9 else "primary" for row in range(60)],
        log_record.STATUS: status,
        log_record.SIGNATURE: [SERVING_DEFAULT] * 60,
        log_record.RECEIVED_AT: pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 60, pa.timestamp("us", tz="UTC")),
        **{log_record.input_column(name): table[name] for name in ("weight", "size", "depot")},
        log_record.output_column("probability"): answered(table),
    }
    whole = pa.table(columns).replace_schema_metadata({log_record.FORMAT_KEY: log_record.FORMAT})
    folder = tmp_path / "log" / f"model={world.NAME}" / "version=1" / "date=2026-01-01"
    folder.mkdir(parents=True)
    pq.write_table(pa.concat_tables([whole.slice(0, 10), whole.slice(11)]), folder / "block.parquet")
    return tmp_path / "log"


@pytest.fixture
def golden(log: Path, tmp_path: Path) -> GoldenRequests:
    return record_golden_requests(log, WHO, tmp_path / "golden.parquet")


def found(
    tmp_path: Path,
    golden: GoldenRequests,
    source: str = HONEST,
    *,
    signature: Signature = world.SIGNATURE,
    data: pa.Table | None = None,
    tolerances: Mapping[str, Tolerance] | None = None,
    golden_counts: str = "FAIL",
    ranges: Mapping[str, OutputRange] | None = None,
    check: str = "golden requests",
) -> list[Finding]:
    """What the robustness gate says of the golden requests, or by another check."""
    version = Version.read(world.publish(tmp_path / "models", 2, Draft(source=source, signature=signature)))
    data = data or world.with_column(world.parcels(100, seed=42), "age", np.ones(100, dtype=np.float32))
    signature = version.manifest.signatures[SERVING_DEFAULT]
    limits = replace(LIMITS, golden=tolerances or {}, golden_counts=golden_counts, output_range=ranges or {})
    case = Case(version, None, data, world.LABEL, golden=golden, report=tmp_path / "report")
    findings = examine(case, input_domains(signature, None, data, None), limits)
    return [one for one in findings if one.check == check]


def test_whole_requests_are_recorded_that_the_version_answered(log: Path, tmp_path: Path) -> None:
    every = record_golden_requests(log, replace(WHO, requests=100), tmp_path / "all.parquet")
    ids = [request for request, _, _ in every.requests()]
    assert ids == [f"r{number:02d}" for number in range(30) if number not in (3, 5, 9)]
    assert every.table.num_rows == 54
    assert every.inputs == ["weight", "size", "depot"]
    assert read_golden_requests(tmp_path / "all.parquet").requests() is not None
    assert read_golden_requests(tmp_path / "all.parquet").servable == "parcels:1"


def test_the_same_log_gives_the_same_requests(log: Path, tmp_path: Path) -> None:
    once, again = (record_golden_requests(log, WHO, tmp_path / f"{name}.parquet") for name in ("a", "b"))
    assert once.table == again.table
    assert len(list(once.requests())) == 20


def test_single_requests_are_recorded_by_id(log: Path, tmp_path: Path) -> None:
    two = record_golden_requests(log, replace(WHO, ids=("r01", "r20")), tmp_path / "two.parquet")
    assert [request for request, _, _ in two.requests()] == ["r01", "r20"]
    with pytest.raises(InvalidInput, match=r"request 'r03' is not among"):
        record_golden_requests(log, replace(WHO, ids=("r01", "r03")), tmp_path / "no.parquet")
    with pytest.raises(NotFound, match="holds no whole and answered request"):
        record_golden_requests(log, replace(WHO, since=datetime(2026, 2, 1, tzinfo=UTC)), tmp_path / "no.parquet")
    assert not (tmp_path / "no.parquet").exists()


def rewritten(log: Path, columns: Mapping[str, Any], rules: Mapping[str, str]) -> None:
    """The log's file with more columns, and with what it says of columns that it does not have as they were asked."""
    (file,) = log.rglob("*.parquet")
    table = pq.read_table(file)
    for name, values in columns.items():
        table = table.append_column(name, values)
    metadata = {**table.schema.metadata, **{log_record.RULE_KEY + name: rule for name, rule in rules.items()}}
    pq.write_table(table.replace_schema_metadata(metadata), file)


def test_columns_of_another_signature_and_hashed_outputs_are_not_recorded(log: Path, tmp_path: Path) -> None:
    others = {"in.text": pa.nulls(59, pa.string()), "out.vector": pa.nulls(59, pa.float32())}
    rewritten(log, {**others, "out.who": pa.array(["ab12"] * 59)}, {"out.who": log_record.HASH})
    recorded = record_golden_requests(log, WHO, tmp_path / "golden.parquet")
    assert (recorded.inputs, recorded.outputs) == (["weight", "size", "depot"], ["probability"])


def test_an_input_that_another_signature_has_of_another_type_is_recorded_as_it_was_asked(log: Path) -> None:
    (file,) = log.rglob("*.parquet")
    table, other = pq.read_table(file), pq.read_table(file)
    for name, value in (("in.weight", "heavy"), (log_record.SIGNATURE, "words")):
        other = other.set_column(other.column_names.index(name), name, pa.array([value] * len(other)))
    pq.write_table(other, file.with_name("other.parquet"))
    recorded = record_golden_requests(log, WHO, log / "golden.parquet")
    assert recorded.table.schema.field("in.weight").type == table.schema.field("in.weight").type


@pytest.mark.parametrize(
    ("column", "told"),
    [("in.size", "input 'size' is hashed in the log"), ("out.probability", "no output is in the log")],
)
def test_what_is_hashed_cannot_be_asked_again(log: Path, tmp_path: Path, column: str, told: str) -> None:
    rewritten(log, {}, {column: log_record.HASH})
    with pytest.raises(InvalidInput, match=told):
        record_golden_requests(log, WHO, tmp_path / "golden.parquet")


@pytest.mark.parametrize(
    ("weights", "why"),
    [(pa.nulls(60, pa.int64()), "a whole number is missing in it"), (pa.array([0.5] * 60), "'weight' holds 0.5")],
)
def test_requests_that_cannot_be_sent_are_not_as_recorded(
    tmp_path: Path, golden: GoldenRequests, weights: pa.Array, why: str
) -> None:
    place, rows = golden.table.column_names.index("in.weight"), golden.table.num_rows
    changed = golden.table.set_column(place, "in.weight", weights.slice(0, rows))
    whole = Signature((TensorSpec("weight", "int64"), *world.INPUTS[1:]), world.OUTPUT)
    data = world.with_column(world.parcels(100, seed=42), "weight", np.arange(100))
    (finding,) = found(tmp_path, replace(golden, table=changed), signature=whole, data=data)
    assert finding.outcome is Outcome.INCONCLUSIVE
    assert finding.sentence.startswith("20 of 20 golden requests cannot be sent to this version (request 'r")
    assert why in finding.sentence


def test_a_candidate_that_answers_alike_passes(tmp_path: Path, golden: GoldenRequests) -> None:
    (one,) = found(tmp_path, golden)
    assert (one.outcome, one.subject) == (Outcome.PASS, "probability")
    assert one.sentence == "`probability` of 20 golden requests of parcels:1 is as recorded"


def test_changed_answers_are_named_by_request(tmp_path: Path, golden: GoldenRequests) -> None:
    changed = before_return('score = score - 0.5 * (inputs["depot"] == b"west")')
    (one,) = found(tmp_path, golden, changed)
    assert one.outcome is Outcome.FAIL
    west = [row["request_id"] for row in golden.table.to_pylist() if row["in.depot"] == "west"]
    assert one.example is not None
    assert one.example["requests"] == list(dict.fromkeys(west))
    assert one.number == len(set(west)) / 20
    assert f"request {west[0]!r}" in one.sentence
    first = one.example["changed"][0]
    assert first["answered"] < first["recorded"]
    lines = (tmp_path / "report" / "golden-requests.csv").read_text().splitlines()
    assert len(lines) == 1 + len(west)


def test_a_refusal_is_a_changed_answer(tmp_path: Path, golden: GoldenRequests) -> None:
    (one,) = found(tmp_path, golden, before_return('if len(score) == 2: raise ValueError("two are too many")'))
    assert one.outcome is Outcome.FAIL
    assert "two are too many" in one.sentence


def test_answers_to_golden_requests_are_held_to_the_policy_s_range(tmp_path: Path, golden: GoldenRequests) -> None:
    asked = golden.table.to_pylist()[-1]
    one_row = f'inputs["weight"] == np.float32({asked["in.weight"]})'
    raised = HONEST.replace("return {", "return {'probability': np.where(" + one_row + ", 1.5, 0.5)}\n        {")
    (one,) = found(tmp_path, golden, raised, ranges={"probability": OutputRange(maximum=1)}, check="range")
    assert one.outcome is Outcome.FAIL
    where = f"row {asked[log_record.ROW]} of golden request {asked[log_record.REQUEST_ID]!r}"
    assert one.sentence == f"for {where} `probability` is 1.5, above the maximum of 1"


def test_a_policy_says_how_far_answers_may_lie(tmp_path: Path, golden: GoldenRequests) -> None:
    shifted = before_return("score = score + 0.01")
    policy = Policy.from_dict({"robustness": {"golden": {"probability": {"absolute": 0.01}}}}, where="policy.toml")
    (near,) = found(tmp_path / "near", golden, shifted, tolerances=policy.robustness.golden)
    assert near.outcome is Outcome.PASS
    (far,) = found(tmp_path / "far", golden, shifted, tolerances={"*": Tolerance(absolute=0.001)}, golden_counts="WARN")
    assert far.outcome is Outcome.WARN
    (few,) = found(
        tmp_path / "few",
        golden,
        before_return('score[inputs["depot"] == b"west"] = 0'),
        tolerances={"*": Tolerance(share=0.9)},
    )
    assert few.outcome is Outcome.PASS
    assert few.sentence.endswith("90 % may change")


def test_a_candidate_of_other_inputs_or_outputs_is_told_so(tmp_path: Path, golden: GoldenRequests) -> None:
    more = Signature((*world.INPUTS, TensorSpec("age", "float32")), world.OUTPUT)
    (one,) = found(tmp_path / "in", golden, signature=more)
    assert one.outcome is Outcome.INCONCLUSIVE
    assert "lacks input `age` of this version" in one.sentence
    other = Signature(world.INPUTS, (TensorSpec("odds", "float32"),))
    (one,) = found(tmp_path / "out", golden, HONEST.replace('"probability"', '"odds"'), signature=other)
    assert (one.outcome, one.subject) == (Outcome.FAIL, "probability")


TWO = """
class Model:
    def predict(self, inputs):
        return {"double": inputs["x"] * 2}

    def raw(self, inputs):
        return {"double": inputs["x"] * FACTOR}
"""


@pytest.mark.parametrize(
    ("factor", "recorded_by", "outcome", "words"),
    [
        (1, "raw", Outcome.PASS, "`double` of 3 golden requests of two:1 is as recorded"),
        (3, "raw", Outcome.FAIL, "request 'a', row 0: 3.0 instead of 1.0"),
        (1, "gone", Outcome.INCONCLUSIVE, "answered by signature `gone`, and this version has raw, serving_default"),
    ],
)
def test_golden_requests_are_asked_by_the_signature_that_answered_them(
    tmp_path: Path, factor: int, recorded_by: str, outcome: Outcome, words: str
) -> None:
    x = np.array([1.0, 2.0, 3.0], dtype=np.float32)
    table = pa.table({log_record.REQUEST_ID: ["a", "b", "c"], "in.x": x, "out.double": x})
    (tmp_path / "two.py").write_text(TWO.replace("FACTOR", str(factor)))
    one = Signature((TensorSpec("x", "float32"),), (TensorSpec("double", "float32"),))
    published = publish(
        Publication(
            files=tmp_path / "two.py",
            servable="two",
            version=2,
            platform="python",
            repository=tmp_path / "models",
            signature={SERVING_DEFAULT: one, "raw": one},
            example={"x": 1.0},
            metadata={"python.methods": '{"raw": "raw"}'},
        )
    )
    held_out = pa.table({"x": x, "late": x})
    golden = GoldenRequests(table, "two:1", recorded_by, "golden.parquet")
    case = Case(Version.read(published.directory), None, held_out, "late", golden=golden)
    findings = examine(case, input_domains(one, None, held_out, None), LIMITS)
    (told,) = [one for one in findings if one.check == "golden requests"]
    assert told.outcome is outcome
    assert words in told.sentence


def test_a_version_carries_its_golden_requests(tmp_path: Path, golden: GoldenRequests) -> None:
    model = tmp_path / "model.py"
    model.write_text(HONEST)
    published = publish(
        Publication(
            files=model,
            servable=world.NAME,
            version=3,
            platform="python",
            repository=tmp_path / "models",
            training=world.parcels(300, seed=1),
            label=world.LABEL,
            signature={SERVING_DEFAULT: world.SIGNATURE},
            golden=golden.where,
        )
    )
    assert golden_path(published.directory).is_file()
    evidence = Evidence(held_out=world.parcels(50, seed=2), label=world.LABEL)
    own = open_case(published.directory, evidence).golden
    assert own is not None
    assert own.table == golden.table
    named = open_case(published.directory, replace(evidence, golden=golden.where)).golden
    assert named is not None
    assert named.where == golden.where


def test_another_file_is_no_golden_requests(tmp_path: Path) -> None:
    pq.write_table(world.parcels(5, seed=1), tmp_path / "parcels.parquet")
    with pytest.raises((InvalidInput, Unsupported), match=r"parcels\.parquet"):
        read_golden_requests(tmp_path / "parcels.parquet")
    (tmp_path / "text.parquet").write_text("no Parquet")
    with pytest.raises(InvalidInput, match="holds no golden requests"):
        read_golden_requests(tmp_path / "text.parquet")
    with pytest.raises(NotFound, match="tidegate golden record"):
        read_golden_requests(tmp_path / "missing.parquet")


@pytest.mark.parametrize(
    ("tolerance", "recorded", "now", "kept"),
    [
        (Tolerance(), [1.0], [1.0 + 1e-6], [True]),
        (Tolerance(), [1.0], [1.001], [False]),
        (Tolerance(), [float("nan")], [float("nan")], [True]),
        (Tolerance(), [float("inf")], [float("inf")], [True]),
        (Tolerance(absolute=0.5), [float("nan"), 1.0], [1.0, float("nan")], [False, False]),
        (Tolerance(absolute=0.5), [[0.0, 1.0]], [[0.4, 1.4]], [True]),
        (Tolerance(absolute=0.5), [[0.0, 1.0]], [[0.4, 1.6]], [False]),
        (Tolerance(), [[1.0, 2.0]], [[1.0]], [False]),
        (Tolerance(), ["a", "b"], ["a", "c"], [True, False]),
        (Tolerance(relative=0.1), [-100.0], [-109.0], [True]),
        (Tolerance(share=0.5), [12345678, 2**60], [12345679, 2**60 + 1], [False, False]),
        (Tolerance(absolute=1), [[7, 7]], [[7, 8]], [True]),
        (Tolerance(relative=1e-5), [12345678], [12345679], [True]),
        (Tolerance(), [12345678], [12345678.5], [True]),
    ],
)
def test_a_tolerance_keeps(tolerance: Tolerance, recorded: Any, now: Any, kept: list[bool]) -> None:
    assert tolerance.kept(recorded, now).tolist() == kept


def test_a_tolerance_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidInput, match="share is 1"):
        Tolerance(share=1.0)
    with pytest.raises(InvalidInput, match="absolute is -1"):
        Tolerance(absolute=-1.0)
