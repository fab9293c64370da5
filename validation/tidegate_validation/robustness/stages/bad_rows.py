"""Real rows that a version does not answer: whether that is always so, and the smallest input that shows it."""

from __future__ import annotations

from tidegate_serving.admission import Outcome
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.failing_inputs import Way
from tidegate_validation.robustness.finding import assignment, came_back, example
from tidegate_validation.robustness.judgement import answered, judge_answer
from tidegate_validation.robustness.narrow import narrow
from tidegate_validation.robustness.probes import Likelihood
from tidegate_validation.sandbox.answer import Answer, AnswerKind
from tidegate_validation.sandbox.examples import Examples

_REPLAYS = 4


def report_bad_rows(examination: Examination, check: str, rows: Examples, answer: Answer) -> None:
    """Reports rows of real data that are not answered, by the smallest input that shows it."""
    if report_if_unsteady(examination, rows, answer):
        return
    seconds = examination.replay_seconds(answer)
    culprit = narrow(
        rows,
        answer,
        _good_like(examination, rows),
        lambda part: examination.ask_raw(part.arrays, len(part), seconds),
        lambda found: not answered(found),
    )
    hung = answer
    rows, answer = culprit.example, culprit.answer
    if hung.kind is AnswerKind.HUNG and answer.kind is AnswerKind.HUNG:
        answer = hung
    changed = culprit.changed if len(culprit.changed) < len(rows.arrays) or len(rows.arrays) == 1 else {}
    subject = next(iter(changed)) if len(changed) == 1 else "examples"
    what = f"{' and '.join(assignment(*one) for one in changed.items())} from real data" if changed else _rows(rows)
    baseline = examination.ask_baseline(rows.arrays) if answer.kind is AnswerKind.REFUSED else None
    outcome = judge_answer(Likelihood.EVERYDAY, answer, baseline)
    shown = example(changed, rows.row(0), answer) | examination.keep(check, subject, rows.arrays, Way.ANSWER)
    examination.report(check, subject, outcome, f"with {what} {came_back(answer)}", example=shown)


def _good_like(examination: Examination, rows: Examples) -> Examples | None:
    """The good row where its inputs have the sizes of these rows', so that one may stand in for the other."""
    good = examination.good
    if good is None or any(good.arrays[name].shape[1:] != array.shape[1:] for name, array in rows.arrays.items()):
        return None
    return good


def report_if_unsteady(examination: Examination, rows: Examples, answer: Answer) -> bool:
    """Sends the same rows again; where they are answered now and then, that is the finding."""
    failed, tries = 1, 1
    for _ in range(1 if answer.kind is AnswerKind.HUNG else _REPLAYS):
        again = examination.ask_raw(rows.arrays, len(rows), examination.replay_seconds(answer))
        tries += 1
        failed += not answered(again)
    if failed == tries:
        return False
    examination.steady = False
    shown = example({}, rows.row(0), answer) | examination.keep("stability", "examples", rows.arrays, Way.AGAIN)
    examination.report(
        "stability",
        "examples",
        Outcome.FAIL,
        f"the same {_rows(rows)} is answered on some calls and not on others: on {failed} of {tries} calls "
        f"{came_back(answer)}",
        number=failed / tries,
        limit=0.0,
        example=shown,
        cause={"kind": "fails now and then"},
    )
    return True


def _rows(rows: Examples) -> str:
    return "a row of real data" if len(rows) == 1 else f"a batch of {len(rows)} rows of real data"
