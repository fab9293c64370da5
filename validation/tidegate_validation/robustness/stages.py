"""The stages of an examination, in order: golden rows, real data, edges, malformed requests, batches, repetition.

`gate` runs them; each takes the examination, asks the version and adds findings.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tidegate_serving.contract.verdict import Outcome
from tidegate_validation.robustness.answer import Answer, AnswerKind
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.examples import Examples
from tidegate_validation.robustness.finding import assignment, came_back, example, probe_finding
from tidegate_validation.robustness.judgement import judge_answer, largest_difference
from tidegate_validation.robustness.narrow import narrow
from tidegate_validation.robustness.probes import Likelihood, Probe, boundary_probes, malformed_probes

_LEAK_CALLS = 120
_LEAK_WARM = 40
_REPEATED = 64
_FIRST_BATCH = 16


def golden(examination: Examination, example_row: Examples | None) -> bool:
    """Replays the manifest's example and rows of real data; True when there is a good row to go on with."""
    rows = examination.sample(examination.limits.golden_rows, seed=1)
    singles = [rows.take(np.array([place])) for place in range(len(rows))]
    failed: list[tuple[Examples, Answer]] = []
    for single in [*([example_row] if example_row is not None else []), *singles]:
        answer = examination.ask(single)
        if _fails(answer):
            failed.append((single, answer))
        elif examination.good is None:
            examination.good, examination.expected = single, answer.outputs
        if examination.exhausted:
            break
    if failed:
        examination.real_rows = False
        _bad_rows(examination, "golden", *failed[0])
    else:
        examination.report("golden", "examples", Outcome.PASS, f"answers {len(singles)} ordinary examples")
    return examination.good is not None


def real_data(examination: Examination) -> None:
    """Sends rows of the data, the unusual ones first, in growing batches, so that a bad row is soon singled out."""
    rows = _unusual_first(examination)
    start, size = 0, _FIRST_BATCH
    while start < len(rows):
        batch = rows.take(np.arange(start, min(start + size, len(rows))))
        answer = examination.ask(batch)
        if _fails(answer):
            _bad_rows(examination, "data", batch, answer)
            examination.real_rows = False
            return
        start, size = start + size, min(2 * size, examination.limits.max_batch)
    examination.report("data", "examples", Outcome.PASS, f"answers {len(rows)} rows of real data with finite numbers")


def boundaries(examination: Examination) -> None:
    """Tries every column at its edges, and a good row after each try."""
    if examination.good is not None:
        _probe_all(examination, "boundary", boundary_probes(examination.signature, examination.good, examination.facts))


def malformed(examination: Examination) -> None:
    """Sends requests that break the signature; each must be refused and leave the version alive."""
    if examination.good is not None:
        _probe_all(examination, "malformed", malformed_probes(examination.signature, examination.good))


def batches(examination: Examination) -> None:
    """Batches of one, several and the largest size; every row must be answered as it is alone and in any place."""
    largest = examination.limits.max_batch
    rows = _answered(examination, largest)
    rows = rows.take(np.arange(largest) % len(rows))
    together = examination.ask(rows)
    if _fails(together):
        _bad_batch(examination, together, largest)
        return
    places = np.unique(np.linspace(0, largest - 1, 12).astype(np.int64))
    worst = 0.0
    for group in (*(np.array([place]) for place in places), places, places[::-1]):
        answer = examination.ask(rows.take(group))
        if _fails(answer):
            _bad_batch(examination, answer, len(group))
            return
        worst = max(worst, largest_difference(answer.outputs, {n: a[group] for n, a in together.outputs.items()}))
    tolerance = examination.limits.tolerance
    if worst > tolerance:
        sentence = f"the same row is answered differently alone and in a batch, by up to {worst:.3g}"
        examination.report("batch", "batch size", Outcome.FAIL, sentence, number=worst, limit=tolerance)
    else:
        sentence = f"answers batches of 1 to {largest}, and a row alike in each"
        examination.report("batch", "batch size", Outcome.PASS, sentence, number=worst, limit=tolerance)


def repetition(examination: Examination) -> None:
    """The same request again and again must have the same answer, and memory must not grow with every call."""
    rows = _answered(examination, _REPEATED)
    first = examination.ask(rows)
    worst, resident = 0.0, []
    for _ in range(_LEAK_CALLS):
        answer = examination.ask(rows)
        if _fails(answer) or _fails(first):
            _bad_rows(examination, "repetition", rows, answer if _fails(answer) else first)
            return
        worst = max(worst, largest_difference(answer.outputs, first.outputs))
        resident.append(answer.resident_bytes)
    limits = examination.limits
    if worst > limits.tolerance:
        outcome = Outcome(limits.nondeterminism)
        sentence = f"the same request is answered differently each time, by up to {worst:.3g}"
    else:
        outcome, sentence = Outcome.PASS, f"answers the same request alike {_LEAK_CALLS} times"
    examination.report("determinism", "repetition", outcome, sentence, number=worst, limit=limits.tolerance)
    _memory(examination, resident[_LEAK_WARM:])


def _memory(examination: Examination, resident: list[int]) -> None:
    from scipy import stats

    slope, _, low, _ = stats.theilslopes(resident)
    grows = float(low) / 1024 > examination.limits.leak_kb
    words = f"memory grows by {float(slope) / 1024:.0f} KiB with every call" if grows else "memory does not grow"
    examination.report(
        "memory",
        "resident memory",
        Outcome.FAIL if grows else Outcome.PASS,
        words,
        number=float(slope) / 1024,
        limit=float(examination.limits.leak_kb),
    )


def _probe_all(examination: Examination, check: str, probes: Iterable[Probe]) -> None:
    done: dict[str, int] = {}
    deadly: set[str] = set()
    for probe in probes:
        if probe.subject in deadly:
            continue
        if examination.exhausted:
            sentence = (
                f"stopped after {examination.session.deaths} crashes; `{probe.subject}` and what follows is untried"
            )
            examination.report(check, "all inputs", Outcome.INCONCLUSIVE, sentence)
            return
        deaths = examination.session.deaths
        if _one_probe(examination, probe):
            done[probe.subject] = done.get(probe.subject, 0) + 1
        if examination.session.deaths > deaths:
            deadly.add(probe.subject)
    for subject, count in done.items():
        examination.report(check, subject, Outcome.PASS, f"`{subject}`: {count} odd inputs are dealt with")


def _one_probe(examination: Examination, probe: Probe) -> bool:
    """Sends one probe, then the good row again; True when both went well."""
    good = examination.good
    if good is None:
        return False
    answer = examination.ask_raw(probe.tensors, 1)
    outcome = judge_answer(probe.likelihood, answer)
    if outcome is Outcome.FAIL and answer.kind is AnswerKind.REFUSED:
        outcome = judge_answer(probe.likelihood, answer, examination.ask_baseline(probe.tensors))
    if outcome is not Outcome.PASS:
        seen = examination.facts.get(probe.subject)
        examination.findings.append(
            probe_finding(probe, answer, outcome, good.row(0), seen.missing_in if seen else None)
        )
    if answer.fatal:
        return False
    after = examination.ask(good)
    if _fails(after) or _changed(examination, good, after):
        words = after.words or "differently from before"
        sentence = f"after {probe.what} in `{probe.subject}` it answers ordinary examples no more as it did ({words})"
        more = example(dict(probe.changed), good.row(0), after)
        examination.report("after", probe.subject, Outcome.FAIL, sentence, example=more)
        return False
    return outcome is Outcome.PASS


def _changed(examination: Examination, good: Examples, after: Answer) -> bool:
    """Whether a good row is answered unlike before, by a version that answers it alike twice in a row now."""
    tolerance = examination.limits.tolerance
    if largest_difference(after.outputs, examination.expected) <= tolerance:
        return False
    again = examination.ask(good)
    examination.expected = again.outputs
    return _fails(again) or largest_difference(after.outputs, again.outputs) <= tolerance


def _fails(answer: Answer) -> bool:
    return answer.kind is not AnswerKind.OUTPUTS or answer.non_finite() is not None


def _bad_rows(examination: Examination, check: str, rows: Examples, answer: Answer) -> None:
    """Reports rows of real data that are not answered, by the smallest input that shows it."""
    culprit = narrow(rows, answer, examination.good, examination.ask, _fails)
    if culprit is not None:
        rows, answer = culprit.example, culprit.answer
    changed = culprit.changed if culprit is not None and len(culprit.changed) == 1 else {}
    subject = next(iter(changed), "examples")
    what = f"{assignment(*next(iter(changed.items())))} from real data" if changed else _rows(rows)
    outcome = judge_answer(Likelihood.EVERYDAY, answer, _baseline_answer(examination, rows, answer))
    sentence = f"with {what} {came_back(answer)}"
    examination.report(check, subject, outcome, sentence, example=example(changed, rows.row(0), answer))


def _baseline_answer(examination: Examination, rows: Examples, answer: Answer) -> Answer | None:
    return examination.ask_baseline(rows.arrays) if answer.kind is AnswerKind.REFUSED else None


def _rows(rows: Examples) -> str:
    return "a row of real data" if len(rows) == 1 else f"a batch of {len(rows)} rows of real data"


def _bad_batch(examination: Examination, answer: Answer, size: int) -> None:
    words = answer.words or "answers NaN or infinity"
    sentence = f"a batch of {size} rows, each answered alone, is not answered: {words}"
    examination.report("batch", "batch size", Outcome.FAIL, sentence, number=float(size))


def _answered(examination: Examination, count: int) -> Examples:
    """Rows to repeat: real ones, or only the good row where some real ones are known to fail."""
    if examination.good is not None and not examination.real_rows:
        return examination.good
    return examination.sample(count, seed=3)


def _unusual_first(examination: Examination) -> Examples:
    """A bounded sample of the data that holds its rows with missing values and with rare categories."""
    data = examination.data
    strange = np.zeros(len(data))
    for array in data.arrays.values():
        if array.dtype.kind == "f":
            missing = np.isnan(array.reshape(len(data), -1)).any(axis=1)
            strange = np.maximum(strange, missing / max(float(missing.mean()), 1e-9) * (missing.mean() > 0))
        elif array.dtype == object:
            _, place, count = np.unique(array.reshape(len(data), -1)[:, 0], return_inverse=True, return_counts=True)
            strange = np.maximum(strange, len(data) / count[place] / len(count))
    noise = np.random.default_rng(2).random(len(data))
    order = np.lexsort((noise, -strange))
    half = examination.limits.sample_rows // 2
    chosen = dict.fromkeys([*order[:half].tolist(), *np.argsort(noise)[:half].tolist()])
    return data.take(np.array(list(chosen), dtype=np.int64))
