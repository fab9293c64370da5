"""Runs the `tidegate` command in the test's own process, as the console script would."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidegate_pipelines.cli import main


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


class Command:
    """Called with arguments, gives back what was printed and the exit status."""

    def __init__(self, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self._patch, self._capture = patch, capture

    def __call__(self, *arguments: str | Path) -> Done:
        self._capture.readouterr()
        self._patch.setattr(sys, "argv", ["tidegate", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = self._capture.readouterr()
        return Done(int(ended.value.code or 0), printed.out, printed.err)
