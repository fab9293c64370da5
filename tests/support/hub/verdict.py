"""Texts for a hub's made-up world, hostile ones too, and a verdict with findings of every kind."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tidegate_serving.admission import Finding, GateResult, Outcome, Verdict
from tidegate_serving.contract.servable import ServableId

FEATURES = ("distance", "carrier", "dep_hour", "seats", "wind_speed", "origin")
ATTACK = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "'\"><svg onload=\"document.title='owned'\">{{ 7 * 7 }}`<b>`\u202e\u2066javascript:alert(1)\u05d0\u05d1 "
)


@dataclass(frozen=True, slots=True)
class Texts:
    """What is written into the tables; an attack in each where it is hostile."""

    hostile: bool = False

    def __call__(self, text: str, most: int = 10_000) -> str:
        if not self.hostile:
            return text
        return (text + ATTACK * math.ceil(most / len(ATTACK)))[:most]

    def name(self, text: str) -> str:
        """A name as long as the table takes it."""
        return (ATTACK + text if len(text) < 40 else text)[:250] if self.hostile else text


def a_verdict(name: str, version: int, say: Texts, *, allowed: bool) -> Verdict:
    """With findings of every kind."""
    gates = (_expectations(say), _quality(say, allowed), _robustness(say), _skew(say))
    return Verdict(
        id=ServableId(name, version),
        manifest_digest="ab" * 32,
        outcome=Outcome.WARN if allowed else Outcome.FAIL,
        allowed=allowed,
        denied_by=() if allowed else ("quality",),
        sentence=say("it may serve" if allowed else "it is refused by the quality gate"),
        gates=gates,
        first=False,
        baseline="cd" * 32,
        data_digest="0" * 64,
        config_digest="1" * 64,
        tool_version="0.1.0",
        issued_at="2026-01-01T00:00:00+00:00",
        expires_at="2026-12-01T00:00:00+00:00",
        notes=(say("the sandbox ran without network"),),
    )


def _quality(say: Texts, allowed: bool) -> GateResult:
    bad = Outcome.PASS if allowed else Outcome.FAIL
    rows = _slices(say, allowed)
    return GateResult(
        "quality",
        bad,
        say(
            "AUC 0.71 is 0.04 below the baseline's 0.75, and the margin is 0.01"
            if not allowed
            else "as good as flights:2, surely within the margin"
        ),
        (
            Finding(
                "AUC",
                "all examples",
                bad,
                say("AUC is 0.04 below that of `flights:2`, surely more than the margin of 0.01"),
                -0.04,
                (-0.052, -0.028),
                limit=-0.01,
                rule="quality.margin",
                p_value=0.0002,
            ),
            Finding(
                "slices",
                "every slice",
                bad,
                say("5 slices were compared; `origin=EWR` lost most"),
                example={"slices": rows},
            ),
            Finding(
                "calibration",
                "all examples",
                Outcome.INCONCLUSIVE,
                say("with 900 examples a calibration error below 0.03 would not show"),
                smallest_detectable=0.03,
                rows_needed=5200,
            ),
        ),
        12.4,
    )


def _slices(say: Texts, allowed: bool) -> list[dict[str, object]]:
    return [
        {
            "slice": say(f"origin={one}", 300),
            "metric": "AUC",
            "rows": 1200,
            "outcome": "FAIL" if place == 0 and not allowed else "PASS",
            "gain": -0.05 * (place == 0) * (not allowed) + 0.004 * place,
            "margin": 0.02,
            "interval": [-0.012 + 0.004 * place - 0.05 * (place == 0), 0.014 + 0.004 * place],
            "relative": False,
        }
        for place, one in enumerate(("EWR", "JFK", "LGA", "carrier=UA", "dep_hour=6"))
    ]


def _robustness(say: Texts) -> GateResult:
    return GateResult(
        "robustness",
        Outcome.WARN,
        say("47 inputs were tried; one was answered slowly"),
        (
            Finding(
                "boundary",
                "distance",
                Outcome.WARN,
                say("with `distance=NaN` the answer took 210 ms"),
                example={"input": {"distance": say("NaN"), "carrier": "UA"}},
            ),
            *(
                Finding("boundary", f"input {number}", Outcome.PASS, "answered as the signature says")
                for number in range(12)
            ),
        ),
        31.0,
    )


def _skew(say: Texts) -> GateResult:
    return GateResult(
        "skew",
        Outcome.PASS,
        say("every feature is as it was for the version that serves"),
        tuple(
            Finding(
                "distribution",
                say.name(one),
                Outcome.PASS,
                say(f"`{one}`: Δ 0.02, below the limit of 0.1"),
                0.02,
                (0.008, 0.04),
                limit=0.1,
                smallest_detectable=0.05,
            )
            for one in FEATURES
        ),
        3.2,
    )


def _expectations(say: Texts) -> GateResult:
    return GateResult(
        "expectations",
        Outcome.PASS,
        say("12 of 12 expectations of the suite hold"),
        (Finding("suite", "held-out data", Outcome.PASS, "12 of 12 hold"),),
        2.0,
    )
