"""Replays what the version must answer in any case: its own example, single rows of real data, then many of them.

It finds the good row that later stages go back to.
"""

from __future__ import annotations

import numpy as np

from tidegate_serving.admission import Outcome
from tidegate_validation.counts import counted
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.judgement import answered
from tidegate_validation.robustness.stages.bad_rows import report_bad_rows
from tidegate_validation.robustness.stages.latency import surely_slow
from tidegate_validation.sandbox.answer import Answer
from tidegate_validation.sandbox.examples import Examples

_FIRST_BATCH = 16
_SIZES = 64  # sizes of open axes that are tried beside that of most rows


def golden(examination: Examination, example_row: Examples | None) -> bool:
    """Replays the manifest's example and rows of real data, as long as they do not show that the version is too slow;
    True when there is a good row to go on with."""
    rows = examination.sample(examination.limits.golden_rows, seed=1)
    singles = [rows.take(np.array([place])) for place in range(len(rows))]
    failed: list[tuple[Examples, Answer]] = []
    asked = 0
    for single in [*([example_row] if example_row is not None else []), *singles]:
        asked += 1
        answer = examination.ask(single)
        if not answered(answer):
            failed.append((single, answer))
        elif examination.good is None:
            examination.good = single
            examination.expect(answer.outputs)
        if examination.exhausted or surely_slow(examination):
            break
    if failed:
        examination.real_rows = False
        report_bad_rows(examination, "golden", *failed[0])
    else:
        examination.report("golden", "examples", Outcome.PASS, f"answers {asked} ordinary examples")
    return examination.good is not None


def real_data(examination: Examination) -> None:
    """Sends rows of the data, the unusual ones first, in growing batches, so that a bad row is soon singled out;
    then a batch of each other size that they have."""
    rows = _unusual_first(examination)
    start, size = 0, _FIRST_BATCH
    while start < len(rows):
        batch = rows.take(np.arange(start, min(start + size, len(rows))))
        answer = examination.ask(batch)
        if not answered(answer):
            report_bad_rows(examination, "data", batch, answer)
            examination.real_rows = False
            return
        examination.learn_units(answer.outputs)
        start, size = start + size, min(2 * size, examination.limits.max_batch)
    count = len(rows)
    for group in examination.other_sizes[:_SIZES]:
        batch = group.take(np.arange(min(len(group), examination.limits.max_batch)))
        answer = examination.ask(batch)
        if not answered(answer):
            report_bad_rows(examination, "data", batch, answer)
            examination.real_rows = False
            return
        count += len(batch)
    sentence = f"answers {counted(count, 'row')} of real data with finite numbers"
    examination.report("data", "examples", Outcome.PASS, sentence)


def output_range(examination: Examination) -> None:
    """Says of each output of the policy's range that it was kept, or that the version has none of that name."""
    outputs = [spec.name for spec in examination.signature.outputs]
    for name in examination.limits.output_range:
        if name not in outputs:
            sentence = f"the policy's output_range names {name!r}, the version has {', '.join(outputs)}"
            examination.report("range", name, Outcome.FAIL, sentence)
        elif name not in examination.out_of_range and examination.good is not None:
            examination.report("range", name, Outcome.PASS, f"`{name}` stays within the policy's range on all rows")


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
