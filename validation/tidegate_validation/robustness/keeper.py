"""Keeps the inputs that a version failed on, in its report's folder, each with the command that tries it again.

The examination hands them in; findings carry what comes back.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tidegate_validation.robustness.failing_input import FailingInput, Origin, write_failing_input

FOLDER = "failing-inputs"
_SUFFIX = ".input"


class Keeper:
    """Writes into `report`/failing-inputs; without a report it keeps nothing."""

    def __init__(self, report: Path | None, origin: Origin) -> None:
        self._report = report
        self._origin = origin
        self._count = 0

    def forget(self) -> None:
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
