"""The inputs that a version failed on, kept as files in its report: what was sent, how, and the limits that held.

The gate writes them while it examines a version; `replay` reads one to try it again.
"""

from __future__ import annotations

import enum
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import InvalidInput, NotFound, TidegateError
from tidegate_serving.contract.formats import check_format
from tidegate_serving.contract.plain_file import open_plain
from tidegate_serving.contract.probe_frames import Frame, read_frame, write_frame
from tidegate_serving.contract.tensors import Array
from tidegate_serving.files import written_aside
from tidegate_serving.typed_config import read_config
from tidegate_validation.robustness.judgement import Unit
from tidegate_validation.robustness.limits import RobustnessLimits

KIND = "failing-input"
FORMAT = f"tidegate.{KIND}/1"
FOLDER = "failing-inputs"
_SUFFIX = ".input"


class Way(enum.StrEnum):
    """What to do with the input to see the failure: send it; again and again; each row alone; in several threads; send
    it and then another; to one process and then to a fresh one.
    """

    ANSWER = "answer"
    AGAIN = "again"
    ALONE = "alone"
    AT_ONCE = "at once"
    THEN = "then"
    RESTARTED = "restarted"


@dataclass(frozen=True, slots=True)
class FailingInput:
    """`tensors` were sent; `then` after them, for `Way.THEN`; `calls` are ranges of rows, for `Way.AT_ONCE`; `units`
    those by which answers differ, see `judgement.units_of`."""

    check: str
    subject: str
    way: Way
    tensors: Mapping[str, Array]
    then: Mapping[str, Array] | None = None
    calls: Sequence[tuple[int, int]] = ()
    units: Mapping[str, Unit] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Origin:
    """Which version failed, as its manifest's digest names it, asked by which signature under which limits."""

    directory: Path
    servable: str
    manifest_digest: str
    signature: str
    limits: RobustnessLimits


class FailingInputs:
    """Those of one examination, in `report`/failing-inputs; without a report nothing is kept."""

    def __init__(self, report: Path | None, origin: Origin) -> None:
        self._report = report
        self._origin = origin
        self._count = 0

    def remove_earlier(self) -> None:
        """Removes what an earlier examination of the same version kept."""
        if self._report is not None:
            for path in (self._report / FOLDER).glob(f"*{_SUFFIX}"):
                path.unlink()

    def keep(self, failed: FailingInput) -> dict[str, str]:
        """Where the input lies and how to try it again, for a finding's example; empty where nothing is kept."""
        if self._report is None:
            return {}
        self._count += 1
        folder = self._report.absolute() / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        subject = re.sub(r"[^A-Za-z0-9]+", "-", failed.subject).strip("-")[:40]
        path = folder / f"{self._count:02d}-{failed.check}-{subject}{_SUFFIX}"
        write_failing_input(path, failed, self._origin)
        return {"file": str(path), "replay": f"tidegate replay {shlex.quote(str(path))}"}


def write_failing_input(path: Path, failed: FailingInput, origin: Origin) -> None:
    """Writes one file: a frame with the input, and one more with what follows it."""
    head: dict[str, Any] = {
        "file_format": FORMAT,
        "check": failed.check,
        "subject": failed.subject,
        "way": failed.way.value,
        "calls": [list(call) for call in failed.calls],
        "units": {name: asdict(unit) for name, unit in failed.units.items()},
        "directory": str(origin.directory),
        "servable": origin.servable,
        "manifest_digest": origin.manifest_digest,
        "signature": origin.signature,
        "limits": asdict(origin.limits),
    }
    with written_aside(path) as aside, aside.open("wb") as file:
        write_frame(file, Frame(KIND, "", head, failed.tensors))
        if failed.then is not None:
            write_frame(file, Frame("then", "", {}, failed.then))


def read_failing_input(path: Path) -> tuple[FailingInput, Origin]:
    """What was written. Raises NotFound, InvalidInput for another file, Unsupported for a newer format."""
    try:
        with open_plain(path) as file:
            first, then = read_frame(file), read_frame(file)
    except FileNotFoundError as error:
        raise NotFound(f"{path} is missing: take the path from the verdict's finding") from error
    except (TidegateError, ValueError, KeyError, TypeError, OSError, MemoryError) as error:
        raise InvalidInput(
            f"{path} holds no failing input ({error}): take the path from the verdict's finding"
        ) from error
    if first is None or first.kind != KIND:
        raise InvalidInput(f"{path} holds no failing input: take the path from the verdict's finding")
    check_format({"format": first.head.get("file_format")}, kind=KIND, version="1", where=str(path))
    try:
        return _failed(first, then), _origin(first.head)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be used ({error}): validate the version again") from error


def _failed(first: Frame, then: Frame | None) -> FailingInput:
    head = first.head
    calls = tuple((int(start), int(end)) for start, end in head["calls"])
    following = None if then is None else then.tensors
    units = {str(name): Unit(**unit) for name, unit in head["units"].items()}
    return FailingInput(head["check"], head["subject"], Way(head["way"]), first.tensors, following, calls, units)


def _origin(head: Mapping[str, Any]) -> Origin:
    return Origin(
        directory=Path(head["directory"]),
        servable=str(head["servable"]),
        manifest_digest=str(head["manifest_digest"]),
        signature=str(head["signature"]),
        limits=read_config(RobustnessLimits, head["limits"], "the limits"),
    )
