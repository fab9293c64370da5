"""The page of a verdict and the advice after it: what a person reads at night, and nothing that it does not say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidegate_serving.admission import Finding, GateResult, Outcome, Verdict
from tidegate_serving.contract.servable import ServableId
from tidegate_validation.report import OverrideLine, Seal, environment, next_steps, push_words, write_report
from tidegate_validation.report.forest import Forest, forest_of
from tidegate_validation.report.verdict_view import verdict_view


def row(name: str, gain: float, outcome: Outcome = Outcome.PASS, **more: Any) -> dict[str, Any]:
    shown = {"slice": name, "metric": "AUC", "rows": 1200, "outcome": outcome.value, "gain": gain, "margin": 0.02}
    return {**shown, "interval": [gain - 0.01, gain + 0.01], "relative": False, **more}


SLICES = Finding(
    "slices",
    "every slice",
    Outcome.PASS,
    "3 slices were compared",
    example={"slices": [row("origin=JFK", 0.0), row("origin=EWR", -0.05, Outcome.FAIL), row("origin=<b>", 0.01)]},
)
OVERALL = Finding(
    "AUC", "all examples", Outcome.PASS, "as good", 0.001, (-0.002, 0.004), limit=-0.01, rule="quality.margin"
)
OPEN = Finding(
    "AUC", "all examples", Outcome.INCONCLUSIVE, "not surely as good", smallest_detectable=0.04, rows_needed=9100
)
CRASH = Finding(
    "boundary", "depot", Outcome.FAIL, "with `depot=☃` its process died", example={"replay": "tidegate replay x.input"}
)


def judged(*gates: GateResult, denied_by: tuple[str, ...] = ()) -> Verdict:
    return Verdict(
        id=ServableId("m", 3),
        manifest_digest="ab" * 32,
        outcome=Outcome.FAIL if denied_by else Outcome.PASS,
        allowed=not denied_by,
        denied_by=denied_by,
        sentence="m:3 is refused by the quality gate: worse" if denied_by else "m:3 may serve",
        gates=gates,
        first=False,
        baseline="cd" * 32,
        data_digest="0" * 64,
        config_digest="1" * 64,
        tool_version="0.1.0",
        issued_at="2026-01-01T00:00:00+00:00",
        expires_at="2026-02-01T00:00:00+00:00",
    )


SEAL = Seal("k", "ef" * 32)


def quality(outcome: Outcome, *findings: Finding) -> GateResult:
    return GateResult("quality", outcome, "worse", findings, 1.0)


def page(folder: Path, verdict: Verdict, seal: Seal | None = None, version: Path | None = None) -> str:
    return write_report(verdict, folder, seal, version).read_text()


def test_the_plot_orders_slices_by_how_sure_a_loss_is_and_keeps_to_one_scale() -> None:
    forest = forest_of([quality(Outcome.FAIL, SLICES, OVERALL)])
    assert forest is not None
    assert [one.label for one in forest.rows] == ["all examples", "origin=EWR", "origin=JFK", "origin=<b>"]
    worst = forest.rows[1]
    assert 0 <= worst.low < worst.number < worst.high < forest.margin < forest.zero == 50
    assert forest.rows[2].number == forest.zero
    assert worst.words == "AUC -0.050 (-0.060 to -0.040), 1,200 examples"


def test_there_is_no_plot_where_nothing_was_compared() -> None:
    assert forest_of([GateResult("skew", Outcome.PASS, "fine"), quality(Outcome.PASS, OPEN)]) is None


def drawn(count: int) -> Forest:
    table = replace(SLICES, example={"slices": [row(f"s={place}", -0.001 * place) for place in range(count)]})
    forest = forest_of([quality(Outcome.PASS, table)])
    assert forest is not None
    return forest


def test_many_slices_are_cut_and_counted() -> None:
    forest = drawn(45)
    assert (len(forest.rows), forest.left_out) == (30, 15)
    assert forest.rows[0].label == "s=44"


def test_the_page_says_why_what_to_do_and_who_signed(tmp_path: Path) -> None:
    verdict = judged(quality(Outcome.FAIL, SLICES), denied_by=("quality", "skew"))
    text = page(tmp_path, verdict, Seal("3f0c9a5be1d27714", "ef" * 32))
    assert "Push allowed: no, because quality is FAIL, skew is required and did not run." in text
    assert "Run the skew gate: the policy requires it, and it did not run" in text
    assert "key 3f0c9a5be1d27714" in text
    assert "ef" * 32 in text
    assert 'class="forest"' in text
    assert "origin=&lt;b&gt;" in text
    assert "<b>" not in text.replace("<b>1</b>", "").replace("<b>3</b>", "")


def test_a_page_of_an_unsigned_verdict_says_that_it_admits_nothing(tmp_path: Path) -> None:
    text = page(tmp_path, judged(quality(Outcome.PASS, SLICES)))
    assert "once its verdict is signed" in text
    assert "Push allowed: no, because nothing is signed; else yes, because every gate passes." in text
    assert "Admits until" not in text
    assert "1 Feb 2026" not in text
    signed = page(tmp_path, judged(quality(Outcome.PASS, SLICES)), SEAL)
    assert "Push allowed: yes, because every gate passes, until 1 Feb 2026" in signed
    assert "Admits until" in signed


def test_what_could_not_be_seen_says_how_small_and_how_many_rows(tmp_path: Path) -> None:
    verdict = judged(quality(Outcome.INCONCLUSIVE, OPEN), denied_by=("quality",))
    (blind_spot,) = verdict_view(verdict).blind_spots
    assert (blind_spot.smallest, blind_spot.rows_needed) == ("0.04", "9,100")
    assert "9,100" in page(tmp_path, verdict)
    assert any("about 9,100 examples" in step for step in next_steps(verdict, place="models/m/3"))


def test_an_override_is_shouted_and_no_other_is_offered(tmp_path: Path) -> None:
    verdict = judged(quality(Outcome.FAIL), denied_by=("quality",))
    line = OverrideLine("quality", "FAIL", "alice (key 99)", "on <fire>", "2026-01-02T00:00:00+00:00")
    seal = Seal("k", "ef" * 32, (line,))
    text = page(tmp_path, verdict, seal)
    assert "Push allowed: only by override, until 2 Jan 2026 00:00 UTC; else no" in text
    assert "FAIL of the quality gate, by alice (key 99), until 2026-01-02T00:00:00+00:00: “on &lt;fire&gt;”" in text
    assert "tidegate override" not in text
    half = judged(quality(Outcome.FAIL), denied_by=("quality", "skew"))
    assert push_words(half, seal).startswith("Push allowed: no, because")


@pytest.mark.parametrize(
    ("gates", "denied_by", "words"),
    [
        ((GateResult("robustness", Outcome.FAIL, "died", (CRASH,)),), ("robustness",), "`tidegate replay x.input`"),
        ((quality(Outcome.ERROR),), ("quality",), "says nothing about the model"),
        ((GateResult("mine", Outcome.FAIL, "no"),), ("mine",), "Mend what the mine gate found"),
        ((quality(Outcome.WARN),), (), "Read what the quality gate has to say"),
        ((quality(Outcome.PASS),), (), "tidegate push models/m/3"),
    ],
)
def test_the_advice_fits_the_outcome(gates: tuple[GateResult, ...], denied_by: tuple[str, ...], words: str) -> None:
    steps = next_steps(judged(*gates, denied_by=denied_by), place="models/m/3")
    assert any(words in step for step in steps), steps
    assert any("tidegate override models/m/3" in step for step in steps) is bool(denied_by)


def test_the_advice_on_a_page_can_be_typed_as_it_stands(tmp_path: Path) -> None:
    refused = page(tmp_path, judged(quality(Outcome.FAIL), denied_by=("quality",)), SEAL, Path("/my models/m/3"))
    assert "<code>tidegate override &#39;/my models/m/3&#39; --gate quality" in refused
    may = page(tmp_path, judged(quality(Outcome.PASS)), SEAL, Path("/models/m/3"))
    for command in ("push /models/m/3", "canary m 3", "promote m 3"):
        assert f"<code>tidegate {command}</code>" in may


def lost(name: str, outcome: Outcome = Outcome.FAIL) -> Finding:
    return Finding("slice", name, outcome, "worse", cause={"kind": "slice", "slice": name})


MORE = Finding("slice", "more slices", Outcome.FAIL, "worse", cause={"kind": "slices", "slices": ["a=3"]})


@pytest.mark.parametrize(
    ("findings", "words"),
    [
        ((OVERALL, lost("a=0", Outcome.WARN), lost("a=1"), lost("a=2")), "look first at the examples where `a=1`;"),
        ((OVERALL,), "look first at the examples that the findings name;"),
        ((lost("a=1"), MORE), "look first at the examples that the findings name;"),
    ],
)
def test_the_advice_names_the_slice_that_lost_unless_many_did(findings: tuple[Finding, ...], words: str) -> None:
    assert words in next_steps(judged(quality(Outcome.FAIL, *findings), denied_by=("quality",)), place="models/m/3")[0]


def test_what_nobody_signed_is_not_to_be_pushed(tmp_path: Path) -> None:
    verdict = judged(quality(Outcome.PASS))
    steps = next_steps(verdict, place="", signed=False)
    assert not any("tidegate push" in step for step in steps)
    assert steps[-1].startswith("Validate it with a signing key (`tidegate validate --key`) once it is published")
    assert "this page is of an unsigned verdict" in page(tmp_path, verdict)


def test_a_name_in_another_direction_does_not_turn_the_sentence_around_it() -> None:
    words = environment().filters["words"]
    assert words("`مسافة`: values ×1.6 in `km`") == '<code dir="auto">مسافة</code>: values ×1.6 in <code>km</code>'
