"""Has steps run and killed in another process, and says what is left of a release afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.release.world import Endpoints, available

from tidegate_serving.control_client import ControlClient


class Killer:
    """The process of `tests.support.orchestrators.killed_steps`, or of another module that answers so."""

    def __init__(
        self, module: str = "tests.support.orchestrators.killed_steps", variables: Mapping[str, str] | None = None
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            env={**os.environ, **(variables or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(
        self, step: str, arguments: Mapping[str, Any], boundary: int = -1, seconds: float | None = None
    ) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"step": step, "arguments": arguments, "boundary": boundary, "seconds": seconds}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def close(self) -> None:
        self._process.communicate()


@dataclass(frozen=True)
class State:
    """What is left of a release: versions that answer, where labels are, the shadow, and whether there is a split."""

    available: tuple[int, ...]
    desired: frozenset[int]
    labels: Mapping[str, int]
    shadow: int | None
    split: bool = False


def state(endpoints: Endpoints, name: str) -> State:
    with ControlClient(endpoints.control) as client:
        status = client.status(name).servable(name)
    assert status is not None
    desired = status.desired
    shadow = desired.shadow.version if desired.shadow else None
    return State(
        tuple(available(endpoints, name)), desired.numbers, dict(desired.labels), shadow, bool(status.overrides)
    )
