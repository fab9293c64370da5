"""Computes a logged answer again, in the sandbox that gates ask models in, and says how it compares."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_pipelines.receipts.logged import LoggedAnswer
from tidegate_pipelines.rows import arrays_of
from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.signature import FirstAxis, Signature, TensorSpec

if TYPE_CHECKING:
    from tidegate_serving.contract.tensors import Array
    from tidegate_validation.sandbox.answer import Answer

TOLERANCE = 1e-5
"""The relative difference that float arithmetic may make in another batch or on another machine; the robustness gate
allows as much."""
_LOAD_SECONDS, _CALL_SECONDS = 90.0, 20.0
_MEMORY_MB = 4096
_ESCAPED = re.compile(r"\\x[0-9a-f]{2}")


class Comparison(enum.StrEnum):
    """How the answers compare."""

    SAME = "same"
    DIFFERS = "differs"
    NOT_COMPUTED = "not computed"


@dataclass(frozen=True, slots=True)
class Again:
    """What came of it. `difference` is the largest one, of floats relative to the logged value; None where there is
    none to measure."""

    comparison: Comparison
    sentence: str
    difference: float | None = None


class _CannotBe(Exception):
    """Why it cannot be computed."""


def compute_again(directory: Path | None, logged: LoggedAnswer, differs_by: float | None = None) -> Again:
    """Asks the version in `directory` what it was asked, twice, and compares with what was logged.

    `differs_by` is what the gates found of a version that is not deterministic. Whatever stands in the way is said as
    NOT_COMPUTED; nothing is raised for it.
    """
    try:
        if logged.status != 0:
            raise _CannotBe(f"the request failed with status {logged.status}, so there is no answer to compare with")
        if directory is None:
            raise _CannotBe("the files that answered are not there")
        if differs_by is not None:
            raise _CannotBe(
                f"the model is not deterministic: its gates saw the same request differ by {differs_by:.3g}"
            )
        signature = _signature(directory, logged.signature)
        return _compared(logged, *_ask_twice(directory, logged, _inputs(logged, signature)))
    except _CannotBe as error:
        return Again(Comparison.NOT_COMPUTED, str(error))
    except TidegateError as error:
        return Again(Comparison.NOT_COMPUTED, error.message)


def _signature(directory: Path, name: str) -> Signature:
    signatures = read_manifest(directory)[0].signatures
    if name not in signatures:
        raise _CannotBe(f"the version has no signature {name!r} any more")
    return signatures[name]


def _inputs(logged: LoggedAnswer, signature: Signature) -> dict[str, Array]:
    wanted = [spec for spec in signature.inputs if spec.name in logged.inputs or spec.name not in signature.defaults]
    columns = {spec.name: _column(logged, spec) for spec in wanted}
    if signature.first_axis is FirstAxis.FREE:
        columns = {name: values[0] for name, values in columns.items()}
    known = Signature(tuple(wanted), signature.outputs, signature.method_name, signature.first_axis)
    return arrays_of(columns, known)


def _column(logged: LoggedAnswer, spec: TensorSpec) -> Sequence[Any]:
    values = logged.inputs.get(spec.name)
    if values is None or any(value is None for value in values):
        raise _CannotBe(f"input {spec.name!r} is not in the log, or was erased from it")
    if spec.dtype != "string":
        return values
    if any(_ESCAPED.search(value) for value in _leaves(values)):
        raise _CannotBe(f"input {spec.name!r} held bytes that are no text, which the log cannot give back")
    texts: list[Any] = _as_bytes(values)
    return texts


def _leaves(value: Any) -> list[str]:
    return [leaf for one in value for leaf in _leaves(one)] if isinstance(value, list | tuple) else [str(value)]


def _as_bytes(value: Any) -> Any:
    return [_as_bytes(one) for one in value] if isinstance(value, list | tuple) else str(value).encode()


def _ask_twice(directory: Path, logged: LoggedAnswer, inputs: Mapping[str, Array]) -> tuple[Answer, Answer]:
    from tidegate_validation.sandbox.answer import AnswerKind
    from tidegate_validation.sandbox.limits import SandboxLimits
    from tidegate_validation.sandbox.session import Session

    limits = SandboxLimits(load_seconds=_LOAD_SECONDS, call_seconds=_CALL_SECONDS, memory_mb=_MEMORY_MB)
    with Session(directory, limits, logged.signature) as session:
        first = session.ask(inputs)
        second = session.ask(inputs) if first.kind is AnswerKind.OUTPUTS else first
    for answer in (first, second):
        if answer.kind is not AnswerKind.OUTPUTS:
            raise _CannotBe(f"the version does not answer now: {answer.words}")
    return first, second


def _compared(logged: LoggedAnswer, first: Answer, second: Answer) -> Again:
    answered, once_more = _outputs(first), _outputs(second)
    moving = max(_difference(answered[name], once_more[name]) for name in answered)
    if moving > TOLERANCE:
        raise _CannotBe(f"the model is not deterministic: the same request differs by {moving:.3g} from call to call")
    worst, where, compared = 0.0, "", 0
    for name, values in logged.outputs.items():
        if name not in answered:
            return Again(Comparison.DIFFERS, f"output {name!r}, which was logged, is none of the version's now")
        again = answered[name]
        found = _difference(_as_logged(values, again), again)
        worst, where = (found, name) if found > worst else (worst, where)
        compared += 1
    if compared == 0:
        raise _CannotBe("the log holds no output of it")
    if worst == 0.0:
        return Again(Comparison.SAME, "computed again, the answer is exactly the same", 0.0)
    if worst <= TOLERANCE:
        words = f"computed again, the answer is the same but for {worst:.2g}, which is float arithmetic"
        return Again(Comparison.SAME, words, worst)
    words = f"computed again, output {where!r} differs by {worst:.3g}"
    return Again(Comparison.DIFFERS, words, None if worst == float("inf") else worst)


def _outputs(answer: Answer) -> dict[str, Array]:
    """What the version answered, complex numbers as pairs, which the log has of them."""
    from tidegate_serving.contract.tensors import to_parts

    return {name: to_parts(array) if array.dtype.kind == "c" else array for name, array in answer.outputs.items()}


def _as_logged(values: Sequence[Any], like: Array) -> Array:
    """The logged values as an array; texts as bytes, as models give them. A request without a batch is one row."""
    import numpy as np

    found = np.asarray(_as_bytes(values), dtype=object) if like.dtype.kind == "O" else np.asarray(values)
    without_batch = found.shape[1:] == like.shape and found.shape[:1] == (1,)
    return found.reshape(like.shape) if without_batch else found


def _difference(before: Array, after: Array) -> float:
    """The largest one, of floats relative to what was before; infinite where they cannot be compared, or texts differ.
    Float arithmetic excuses nothing of whole numbers, of which it is exact."""
    import numpy as np

    if before.shape != after.shape:
        return float("inf")
    if before.dtype.kind not in "fiub" or after.dtype.kind not in "fiub":
        return 0.0 if bool(np.all(before == after)) else float("inf")
    if before.size == 0:
        return 0.0
    if before.dtype.kind != "f" and after.dtype.kind != "f":
        apart = before != after
        pairs = zip(before[apart].tolist(), after[apart].tolist(), strict=True)
        return float(max((abs(old - new) for old, new in pairs), default=0))
    old, new = before.astype(np.float64), after.astype(np.float64)
    equal = (old == new) | (np.isnan(old) & np.isnan(new))
    with np.errstate(invalid="ignore"):
        off = np.where(equal, 0.0, np.abs(old - new) / np.maximum(1.0, np.abs(old)))
    return float(np.max(np.where(np.isnan(off), np.inf, off)))
