"""Batches of no row, one, several, the largest size and one more; every row must be answered as it is alone.

Only rows that the version answers alone are sent; after Giskard's comparison of rows alone and in a batch.
"""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np

from tidegate_serving.admission import Outcome
from tidegate_validation.counts import counted
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.failing_inputs import Way
from tidegate_validation.robustness.finding import came_back, example
from tidegate_validation.robustness.judgement import answered, judge_answer, largest_difference, rough_units
from tidegate_validation.robustness.probes import Likelihood
from tidegate_validation.robustness.stages.bad_rows import report_if_unsteady
from tidegate_validation.sandbox.answer import Answer
from tidegate_validation.sandbox.examples import Examples

_CHECK, _SUBJECT = "batch", "batch size"
_ALONE = 12
_ROUNDING = " (which float32 may do by rounding: raise `tolerance`, or compute in float64)"
_BY_THE_BATCH = (
    ": its ONNX graph is quantised dynamically, which scales all rows of a call by the largest of them; quantise it "
    "statically, with data to calibrate it, or only its weights"
)
_DYNAMIC = b"DynamicQuantizeLinear"
"""The operator that does that."""


def batches(examination: Examination) -> None:
    """The sizes that every engine forms, then those that only odd clients send."""
    largest = examination.limits.max_batch
    rows = examination.answered_rows(largest)
    rows = rows.take(np.arange(largest) % len(rows))
    together = examination.ask(rows)
    if not answered(together):
        _bad_batch(examination, rows, together)
        return
    if not _alike(examination, rows, together):
        return
    if _odd_size(examination, rows.take(np.arange(0)), "an empty batch"):
        more = rows.take(np.arange(largest + 1) % largest)
        _odd_size(examination, more, f"{largest + 1} rows, one more than the largest batch")


def _alike(examination: Examination, rows: Examples, together: Answer) -> bool:
    """Whether rows are answered alike alone, in small groups, in another order, and one several times over."""
    largest, tolerance = len(rows), examination.limits.tolerance
    places = np.unique(np.linspace(0, largest - 1, _ALONE).astype(np.int64))
    worst, worst_group, surely = 0.0, places[:1], 0.0
    rough = rough_units(examination.units, together.outputs)
    alone = [np.array([place]) for place in places]
    for group in (*alone, places, places[::-1], np.repeat(places[:1], _ALONE)):
        answer = examination.ask(rows.take(group))
        if not answered(answer):
            _bad_batch(examination, rows.take(group), answer)
            return False
        expected = {name: array[group] for name, array in together.outputs.items()}
        difference = examination.difference(answer.outputs, expected)
        surely = max(surely, largest_difference(answer.outputs, expected, rough))
        if difference > worst:
            worst, worst_group = difference, group
    if worst > tolerance and _answers_itself_alike(examination, rows, together):
        sentence = f"the same row is answered differently alone and in a batch, by up to {worst:.3g}"
        if surely <= tolerance:
            sentence += _ROUNDING
        elif is_quantised_dynamically(examination.session.directory):
            sentence += _BY_THE_BATCH
        shown = {"input": rows.row(int(worst_group[0]))}
        shown |= examination.keep(_CHECK, _SUBJECT, rows.arrays, Way.ALONE)
        examination.report(
            _CHECK,
            _SUBJECT,
            Outcome.FAIL if surely > tolerance else Outcome.WARN,
            sentence,
            number=worst,
            limit=tolerance,
            example=shown,
            cause={"kind": "depends on the batch"},
        )
    elif worst > tolerance:
        sentence = "whether a row depends on its batch cannot be told, for the same batch is answered differently again"
        examination.report(_CHECK, _SUBJECT, Outcome(examination.limits.nondeterminism), sentence, number=worst)
    else:
        sentence = f"answers batches of 1 to {largest}, and a row alike in each"
        examination.report(_CHECK, _SUBJECT, Outcome.PASS, sentence, number=worst, limit=tolerance)
    return True


def is_quantised_dynamically(directory: Path) -> bool:
    """Whether an ONNX graph there scales its numbers by all that it is asked at once."""
    for path in directory.rglob("*.onnx"):
        if not path.is_file() or not path.stat().st_size:
            continue
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content.find(_DYNAMIC) >= 0:
                return True
    return False


def _answers_itself_alike(examination: Examination, rows: Examples, together: Answer) -> bool:
    again = examination.ask(rows)
    return answered(again) and examination.difference(again.outputs, together.outputs) <= examination.limits.tolerance


def _odd_size(examination: Examination, rows: Examples, what: str) -> bool:
    """Sends a batch that may be refused, but not by accident, and not with the process's life; False where it died."""
    answer = examination.ask(rows)
    outcome = judge_answer(Likelihood.EXTREME, answer)
    if outcome is Outcome.FAIL and not answer.fatal:
        outcome = judge_answer(Likelihood.EXTREME, answer, examination.ask_baseline(rows.arrays))
    if outcome in (Outcome.PASS, Outcome.WARN) and answered(answer):
        examination.report(_CHECK, what, Outcome.PASS, f"answers {what}")
    elif outcome is Outcome.PASS:
        examination.report(_CHECK, what, Outcome.PASS, f"refuses {what} in so many words ({answer.words})")
    else:
        kept = examination.keep(_CHECK, what, rows.arrays, Way.ANSWER)
        shown = {**({"log": answer.log} if answer.log else {}), **kept}
        sentence = f"with {what} {came_back(answer)}"
        examination.report(_CHECK, what, outcome, sentence, number=float(len(rows)), example=shown or None)
    return not answer.fatal


def _bad_batch(examination: Examination, rows: Examples, answer: Answer) -> None:
    if report_if_unsteady(examination, rows, answer):
        return
    sentence = f"a batch of {counted(len(rows), 'row')}, each answered alone, is not answered: {came_back(answer)}"
    shown = example({}, rows.row(0), answer) | examination.keep(_CHECK, _SUBJECT, rows.arrays, Way.ANSWER)
    examination.report(_CHECK, _SUBJECT, Outcome.FAIL, sentence, number=float(len(rows)), example=shown)
