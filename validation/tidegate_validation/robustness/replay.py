"""Tries an input again that a version failed on, in a sandbox under the same limits, and says what happens now."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tidegate_serving.contract.errors import NotFound, Tampered
from tidegate_serving.contract.manifest import FILE_NAME, digest
from tidegate_serving.contract.tensors import Array
from tidegate_validation.robustness.failing_inputs import FailingInput, Origin, Way, read_failing_input
from tidegate_validation.robustness.finding import came_back
from tidegate_validation.robustness.judgement import answered, largest_difference
from tidegate_validation.sandbox.answer import Answer, AnswerKind
from tidegate_validation.sandbox.environment import ELSEWHERE
from tidegate_validation.sandbox.session import Session

_TIMES = 20
_ALONE = 12


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What happened: whether the version `failed` again, a sentence, the end of its log, and how long it took."""

    failed: bool
    sentence: str
    log: str = ""
    seconds: float = 0.0
    servable: str = ""
    found: str = ""


def replay(path: Path, directory: Path | None = None) -> ReplayResult:
    """Runs the version that failed, or the one in `directory`, on the input in `path`.

    Raises NotFound where file or version is missing, InvalidInput for another file, Tampered where the recorded
    directory holds another version by now, Unavailable where the sandbox cannot start.
    """
    failed, origin = read_failing_input(path)
    version = _version(origin, path) if directory is None else directory
    begun = time.monotonic()
    with Session(version, origin.limits, origin.signature) as session:
        loaded = session.load()
        if loaded.fatal:
            again, sentence, log = True, f"the version does not load: it {loaded.words}", loaded.log
        else:
            again, sentence, log = _WAYS[failed.way](session, failed, origin)
    what = f"{failed.check} of {failed.subject!r}"
    return ReplayResult(again, sentence, log, time.monotonic() - begun, origin.servable, what)


def _version(origin: Origin, path: Path) -> Path:
    """The directory that was recorded, or the one beside the report that holds `path`; the very same version."""
    beside = path.absolute().parents[1].with_suffix("")
    for candidate in (origin.directory, beside):
        manifest = candidate / FILE_NAME
        if manifest.is_file():
            if digest(manifest.read_bytes()) != origin.manifest_digest:
                raise Tampered(f"{candidate} is no longer the {origin.servable} that failed: give its directory")
            return candidate
    raise NotFound(f"{origin.directory} with {origin.servable} is gone: give the directory of the version to try")


def _answer(session: Session, failed: FailingInput, origin: Origin) -> tuple[bool, str, str]:
    answer = session.ask(failed.tensors)
    allowed = origin.limits.output_range.get(failed.subject) if failed.check == "range" else None
    if allowed is not None and answered(answer) and failed.subject in answer.outputs:
        outside = allowed.first_outside(answer.outputs[failed.subject])
        words = f"`{failed.subject}` {outside[1] if outside else 'stays within the range of the policy'}"
        return outside is not None, words, answer.log
    return not answered(answer), f"it is sent {_rows(failed.tensors)} row(s): {came_back(answer)}", answer.log


def _again(session: Session, failed: FailingInput, origin: Origin) -> tuple[bool, str, str]:
    answers = [session.ask(failed.tensors) for _ in range(_TIMES)]
    wrong = [answer for answer in answers if not answered(answer)]
    if wrong:
        words = f"the same request fails on {len(wrong)} of {_TIMES} calls: {came_back(wrong[0])}"
        return True, words, wrong[0].log
    worst = max(largest_difference(answer.outputs, answers[0].outputs, failed.units) for answer in answers)
    return worst > origin.limits.tolerance, f"{_TIMES} answers to the same request differ by up to {worst:.3g}", ""


def _alone(session: Session, failed: FailingInput, origin: Origin) -> tuple[bool, str, str]:
    together = session.ask(failed.tensors)
    if not answered(together):
        return True, f"the whole batch is not answered: {came_back(together)}", together.log
    worst = 0.0
    for place in np.unique(np.linspace(0, _rows(failed.tensors) - 1, _ALONE).astype(np.int64)):
        alone = session.ask({name: array[place : place + 1] for name, array in failed.tensors.items()})
        if not answered(alone):
            return True, f"row {place} alone is not answered: {came_back(alone)}", alone.log
        expected = {name: array[place : place + 1] for name, array in together.outputs.items()}
        worst = max(worst, largest_difference(alone.outputs, expected, failed.units))
    return worst > origin.limits.tolerance, f"rows alone and in their batch differ by up to {worst:.3g}", ""


def _at_once(session: Session, failed: FailingInput, origin: Origin) -> tuple[bool, str, str]:
    from tidegate_validation.robustness.stages.concurrency import compare

    calls = list(failed.calls)
    serial: list[Answer] = []
    for first, last in calls:
        serial.append(session.ask({name: array[first:last] for name, array in failed.tensors.items()}))
        if not answered(serial[-1]):
            return True, f"a call by one thread is not answered: {came_back(serial[-1])}", serial[-1].log
    answer = session.ask_at_once(failed.tensors, calls, origin.limits.threads)
    if answer.kind is not AnswerKind.OUTPUTS:
        return True, f"asked by {origin.limits.threads} threads at once {came_back(answer)}", answer.log
    expected = {name: np.concatenate([one.outputs[name] for one in serial]) for name in serial[0].outputs}
    worst, wrong, done = compare(answer, expected, calls, failed.units)
    words = (
        f"{wrong} of {done} calls from {origin.limits.threads} threads differ from those in turn, by up to {worst:.3g}"
    )
    return worst > origin.limits.tolerance, words, ""


def _then(session: Session, failed: FailingInput, origin: Origin) -> tuple[bool, str, str]:
    following = failed.then if failed.then is not None else failed.tensors
    before = session.ask(following)
    first = session.ask(failed.tensors)
    after = session.ask(following)
    if not answered(before) or not answered(after):
        wrong = after if answered(before) else before
        return True, f"the ordinary request is not answered: {came_back(wrong)}", wrong.log
    worst = largest_difference(after.outputs, before.outputs, failed.units)
    words = f"after it ({came_back(first)}) an ordinary request is answered otherwise than before by up to {worst:.3g}"
    return worst > origin.limits.tolerance, words, first.log


def _restarted(session: Session, failed: FailingInput, origin: Origin) -> tuple[bool, str, str]:
    before = session.ask(failed.tensors)
    session.renew(ELSEWHERE)
    after = session.ask(failed.tensors)
    if not answered(before) or not answered(after):
        wrong = after if answered(before) else before
        return True, f"it is loaded and asked twice: {came_back(wrong)}", wrong.log
    worst = largest_difference(after.outputs, before.outputs, failed.units)
    words = f"two processes answer the same request otherwise by up to {worst:.3g}"
    return worst > origin.limits.tolerance, words, ""


def _rows(tensors: Mapping[str, Array]) -> int:
    return len(next(iter(tensors.values())))


_WAYS: Mapping[Way, Callable[[Session, FailingInput, Origin], tuple[bool, str, str]]] = {
    Way.ANSWER: _answer,
    Way.AGAIN: _again,
    Way.ALONE: _alone,
    Way.AT_ONCE: _at_once,
    Way.THEN: _then,
    Way.RESTARTED: _restarted,
}
