"""Would a rollback help: is the fault in what arrives, so that any version suffers, or in the version that serves?

What a skew report names is taken back on logged rows, and the serving and the previous version answer both. Where the
fault is in the feed, the previous version needs the mended rows too; where it is in the version, which learnt from
other values than are sent, the previous version is right with the rows as they came.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.errors import InvalidInput, ModelFailed
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import profile_directory
from tidegate_serving.contract.tensors import Array
from tidegate_validation.sandbox.answer import AnswerKind
from tidegate_validation.sandbox.examples import default_signature, examples_of
from tidegate_validation.sandbox.limits import SandboxLimits
from tidegate_validation.sandbox.session import Session
from tidegate_validation.skew.compare import compare
from tidegate_validation.skew.over_time import CHECK as OVER_TIME
from tidegate_validation.skew.rule import SkewRule
from tidegate_validation.skew.undo import undone
from tidegate_validation.statistics.profile import read_profile
from tidegate_validation.statistics.sql import quote
from tidegate_validation.statistics.window import Window

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 2_000
_SEEN = (Outcome.FAIL, Outcome.WARN)
_CHANGE = 0.1
_HARDLY = 0.005
_AS_FAR = 0.5


class Advice(enum.StrEnum):
    """What to do about skew."""

    HELPS = "rollback helps"
    FEED = "the feed is at fault"
    BOTH = "the feed is at fault for some features, the version for others"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, slots=True)
class RollbackAdvice:
    """The advice about going back from `serving` to `previous`, and what it rests on.

    `feed` are the features by which the previous version suffers too, `version` those by which only the serving one
    does. Where something could be taken back (`mended`), on `rows` logged rows, `serving_changes` and
    `previous_changes` are the shares of each version's decisions that change with it, and `rollback_changes` the share
    that the rollback itself would change; None where nothing could be taken back.
    """

    advice: Advice
    sentence: str
    serving: str
    previous: str
    feed: tuple[str, ...] = ()
    version: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    rows: int = 0
    serving_changes: float | None = None
    previous_changes: float | None = None
    rollback_changes: float | None = None


@dataclass(frozen=True, slots=True)
class _Answers:
    """Decisions of a version on the rows as they came and as they were mended."""

    came: Array
    mended: Array


def advise(
    window: Window,
    findings: Sequence[Finding],
    serving: Path,
    previous: Path,
    rule: SkewRule,
    limits: SandboxLimits | None = None,
) -> RollbackAdvice | None:
    """The advice for a window and the findings of its report; None where no feature differs.

    Both versions run in a sandbox; where one of them cannot answer rows that were logged, profiles alone decide.
    """
    blamed = [one for one in findings if one.outcome in _SEEN and one.check != OVER_TIME]
    failing = {one.subject for one in blamed if one.outcome is Outcome.FAIL}
    causes = {one.subject: one.cause for one in reversed(blamed) if one.subject in failing and one.cause}
    if not failing:
        return None
    rows = _logged(window)
    mended, done = undone(rows, causes)
    names = (str(read_manifest(serving)[0].id), str(read_manifest(previous)[0].id))
    used = limits or SandboxLimits()
    answers, why = _both(serving, previous, rows, mended if done else None, used)
    suffers, unclear = _suffers(window, previous, blamed, failing, rule)
    if unclear:
        alone, took = undone(rows, {name: causes[name] for name in unclear if name in causes})
        kept, of_unclear = sorted(unclear - {*took}), answers
        if set(took) != set(done):
            of_unclear, why = ([], "") if kept else _both(serving, previous, rows, alone, used)
        if kept or not of_unclear:
            words = _untold(previous, names[1], sorted(unclear), kept, why)
            return RollbackAdvice(Advice.UNKNOWN, f"Whether a rollback would help cannot be told: {words}.", *names)
        suffers |= unclear if _needs_mending(*of_unclear) else set()
    feed, version = tuple(sorted(suffers)), tuple(sorted(failing - suffers))
    changes = _changes(answers) if answers else {}
    advice = Advice.BOTH if feed and version else Advice.FEED if feed else Advice.HELPS
    sentence = _sentence(advice, names, feed, version, changes)
    return RollbackAdvice(
        advice, sentence, *names, feed, version, mended=done, rows=rows.num_rows if answers else 0, **changes
    )


def _both(
    serving: Path, previous: Path, rows: pa.Table, mended: pa.Table | None, limits: SandboxLimits
) -> tuple[list[_Answers], str]:
    """What both versions answer, or nothing, and why."""
    if mended is None:
        return [], "nothing that was found can be taken back"
    try:
        return [_answers(one, rows, mended, limits) for one in (serving, previous)], ""
    except (InvalidInput, ModelFailed) as error:
        return [], error.message


def _logged(window: Window) -> pa.Table:
    """Some of the window's rows, by feature; those that lie evenly over it."""
    step = max(1, window.rows // _ROWS)
    columns = ", ".join(f"{quote(column)} AS {quote(name)}" for name, column in window.columns.items())
    numbered = f"SELECT {columns}, row_number() OVER () AS tidegate_row FROM {window.relation}"
    found = window.connection.sql(f"SELECT * FROM ({numbered}) WHERE tidegate_row % {step} = 0 LIMIT {_ROWS}")
    return found.to_arrow_table().drop_columns(["tidegate_row"])


def _suffers(
    window: Window, previous: Path, blamed: Sequence[Finding], failing: set[str], rule: SkewRule
) -> tuple[set[str], set[str]]:
    """Features that differ from what the previous version was trained on too, and those of which its profile cannot
    tell: all where it has none."""
    if not profile_directory(previous).is_dir():
        return set(), failing
    found = compare(read_profile(profile_directory(previous)), window, rule).findings
    mine = {one.subject: one for one in reversed(blamed) if one.outcome is Outcome.FAIL}
    told = {name: _differs_too(mine[name], found.get(name, ())) for name in failing}
    return {name for name, one in told.items() if one}, {name for name, one in told.items() if one is None}


def _differs_too(mine: Finding, theirs: Sequence[Finding]) -> bool | None:
    """Whether a feature that fails by `mine` differs by what is found of the previous version as well, at least half as
    far where training's days are too few for that to fail; None where it cannot be told, as where the rows are too few
    to be sure how far."""
    outcomes = {one.outcome for one in theirs}
    if Outcome.FAIL in outcomes:
        return True
    if not outcomes & {Outcome.WARN, Outcome.INCONCLUSIVE}:
        return False
    same = next((one for one in theirs if one.check == mine.check and one.outcome is Outcome.WARN), None)
    if same is None or same.number is None or mine.number is None:
        return None
    if same.interval is not None and same.limit is not None and same.interval[0] <= same.limit <= same.interval[1]:
        return None
    return abs(same.number) >= _AS_FAR * abs(mine.number)


def _untold(previous: Path, name: str, unclear: Sequence[str], kept: Sequence[str], why: str) -> str:
    """Why neither the previous version's profile nor answers tell."""
    columns, left = (", ".join(f"`{one}`" for one in names) for names in (unclear, kept))
    has = "has too few days or rows to tell" if profile_directory(previous).is_dir() else ""
    first = f"the training of {name} {has} of {columns}" if has else f"{name} has no training profile"
    return f"{first}, and {why or f'what was done to {left} cannot be taken back'}"


def _answers(directory: Path, rows: pa.Table, mended: pa.Table, limits: SandboxLimits) -> _Answers:
    manifest = read_manifest(directory)[0]
    name, signature = default_signature(manifest)
    with Session(directory, limits, name) as session:
        loaded = session.load()
        if loaded.kind is not AnswerKind.OUTPUTS:
            raise ModelFailed(f"{manifest.id} does not load ({loaded.words})")
        found = []
        for table in (rows, mended):
            answer = session.ask(examples_of(signature, table).arrays)
            if answer.kind is not AnswerKind.OUTPUTS:
                raise ModelFailed(f"{manifest.id} does not answer logged rows ({answer.words})")
            found.append(_decisions(answer.outputs))
    return _Answers(*found)


def _decisions(outputs: Mapping[str, Array]) -> Array:
    """One decision per row, from the first output: the largest of several numbers, which side of a half a probability
    lies on, else the value itself."""
    first = next(iter(outputs.values()))
    flat = first.reshape(len(first), -1)
    if flat.shape[1] > 1 and flat.dtype.kind in "fiu":
        return np.asarray(flat.argmax(axis=1))
    values = flat[:, 0]
    if values.dtype.kind == "f" and ((values >= 0) & (values <= 1)).all():
        return np.asarray(values >= 0.5)
    return np.asarray(values)


def _apart(one: Array, other: Array) -> float:
    """Share of decisions that differ; numbers differ by a tenth of their usual spread and more."""
    if not len(one):
        return 0.0
    if one.dtype.kind == "f" and other.dtype.kind == "f":
        least = _CHANGE * max(float(np.nanstd(other)), 1e-9)
        return float(np.mean(~(np.abs(one - other) <= least)))
    return float(np.mean(one != other))


def _needs_mending(serving: _Answers, previous: _Answers) -> bool:
    """Whether the previous version agrees with the serving one's answers to mended rows better on mended rows too."""
    return _apart(previous.mended, serving.mended) + _HARDLY < _apart(previous.came, serving.mended)


def _changes(answers: Sequence[_Answers]) -> dict[str, Any]:
    serving, previous = answers
    return {
        "serving_changes": round(_apart(serving.came, serving.mended), 4),
        "previous_changes": round(_apart(previous.came, previous.mended), 4),
        "rollback_changes": round(_apart(previous.came, serving.came), 4),
    }


def _sentence(
    advice: Advice, names: Sequence[str], feed: Sequence[str], version: Sequence[str], changes: Mapping[str, Any]
) -> str:
    serving, previous = names
    shown = ", ".join(f"`{name}`" for name in (version if advice is Advice.HELPS else feed))
    told = ""
    if changes:
        told = (
            f" Taken back on logged rows, {100 * changes['serving_changes']:.1f} % of the decisions of {serving} "
            f"change and {100 * changes['previous_changes']:.1f} % of those of {previous}; a rollback would change "
            f"{100 * changes['rollback_changes']:.1f} % of the decisions."
        )
    if advice is Advice.HELPS:
        return f"A rollback to {previous} helps: what is sent in {shown} is what it was trained on.{told}"
    if advice is Advice.FEED:
        return f"A rollback does not help: {previous} suffers from {shown} too, so mend the feed.{told}"
    rest = ", ".join(f"`{name}`" for name in version)
    return f"A rollback to {previous} helps with {rest} only: it suffers from {shown} too, so mend the feed.{told}"
