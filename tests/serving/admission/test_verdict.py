"""The published schema takes every verdict as written and no other; what numbers JSON lacks never reach a document."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest

from tidegate_serving.admission import Finding, GateResult, Outcome, Verdict, verdict_schema
from tidegate_serving.contract.errors import Tampered
from tidegate_serving.contract.servable import ServableId

FINDING = Finding(
    "metric",
    "origin = JFK",
    Outcome.INCONCLUSIVE,
    "too few rows to tell",
    number=-0.004,
    interval=(-0.02, 0.01),
    limit=-0.01,
    rule="quality.margin",
    p_value=0.4,
    smallest_detectable=0.03,
    rows_needed=9000,
    cause={"kind": "few rows", "rows": np.int64(300)},
    example={"rows": [{"x": np.float32(1.5), "name": b"caf\xc3\xa9"}]},
)
VERDICT = Verdict(
    id=ServableId("flights", 3),
    manifest_digest="ab" * 32,
    outcome=Outcome.INCONCLUSIVE,
    allowed=False,
    denied_by=("quality",),
    sentence="flights:3 is refused by the quality gate: too few rows to tell",
    gates=(GateResult("quality", Outcome.INCONCLUSIVE, "too few rows to tell", (FINDING,), 0.5),),
    first=False,
    baseline="cd" * 32,
    data_digest="0" * 64,
    config_digest="1" * 64,
    tool_version="0.1.0",
    issued_at="2013-06-01T00:00:00+00:00",
    expires_at="2013-07-01T00:00:00+00:00",
)


def is_valid(document: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(verdict_schema()).is_valid(document))


def test_a_written_verdict_keeps_to_the_schema_and_comes_back() -> None:
    document = VERDICT.to_dict()
    assert is_valid(document)
    again = Verdict.from_dict(json.loads(json.dumps(document, allow_nan=False)), "here")
    assert again.to_dict() == document
    assert again.gate("quality") == again.gates[0]
    assert again.gate("skew") is None


def test_every_test_of_the_suite_is_watched() -> None:
    with pytest.raises(jsonschema.ValidationError, match="does not match"):
        replace(VERDICT, manifest_digest="ab").to_dict()


def broken(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    document = copy.deepcopy(VERDICT.to_dict())
    change(document)
    return document


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.pop("denied_by"),
        lambda document: document.update(allowed=True),
        lambda document: document.update(denied_by=[]),
        lambda document: document.update(outcome="GOOD"),
        lambda document: document.update(manifest_digest="ab"),
        lambda document: document.update(first=True),
        lambda document: document.update(baseline=None),
        lambda document: document.update(format="tidegate.verdict/2"),
        lambda document: document["gates"][0].pop("findings"),
        lambda document: document["gates"][0]["findings"][0].update(sentence=""),
        lambda document: document["gates"][0]["findings"][0].update(p_value=1.5),
        lambda document: document["gates"][0]["findings"][0].update(cause={"factor": 2.0}),
        lambda document: document["gates"][0]["findings"][0].update(interval=[0.1]),
        lambda document: document["gates"][0]["findings"][0].pop("smallest_detectable"),
        lambda document: document["gates"][0]["findings"][0].update(smallest_detectable=None),
    ],
)
def test_what_a_verdict_may_not_be_is_refused_by_the_schema(change: Callable[[dict[str, Any]], object]) -> None:
    assert not is_valid(broken(change))


def test_numbers_that_json_lacks_are_left_out_and_open_ends_come_back() -> None:
    odd = Finding("c", "s", Outcome.FAIL, "odd", number=math.nan, interval=(-math.inf, 2.0), example={"x": [math.inf]})
    document = odd.to_dict()
    assert document["number"] is None
    assert document["interval"] == [None, 2.0]
    assert document["example"] == {"x": ["inf"]}
    assert Finding.from_dict(json.loads(json.dumps(document, allow_nan=False))).interval == (-math.inf, 2.0)


def test_keys_of_a_later_minor_version_are_left_aside() -> None:
    document = broken(lambda one: one["gates"][0]["findings"][0].update(colour="blue"))
    document["format"] = "tidegate.verdict/1.1"
    assert Verdict.from_dict(document, "here").gates[0].findings[0].subject == "origin = JFK"


def test_a_verdict_that_contradicts_itself_is_no_verdict() -> None:
    with pytest.raises(Tampered, match="allowed True and denied by"):
        Verdict.from_dict(broken(lambda document: document.update(allowed=True)), "here")
