"""Control groups of Linux, of either version: what processes may use together, and how they share processors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from tests.support.eventually import eventually

_GROUPS = Path("/sys/fs/cgroup")
_USUAL_SHARES, _USUAL_WEIGHT = 1024, 100


class ControlGroup:
    """A group around processes, which must end before it. Making one needs root."""

    def __init__(self, around: Path, limits: dict[str, int], name: str = "bench") -> None:
        self._around = around
        self._own = around / f"tidegate-{name}-{os.getpid()}"
        self._own.mkdir()
        for name, value in limits.items():
            (self._own / name).write_text(str(value))

    @classmethod
    def of_memory(cls, limit: int) -> Self:
        """Its processes may use `limit` bytes together."""
        around, first = _around("memory")
        return cls(around, {"memory.limit_in_bytes" if first else "memory.max": limit})

    @classmethod
    def of_processors(cls, times: int, name: str = "bench") -> Self:
        """Its processes get `times` as much of a processor as others that want it."""
        around, first = _around("cpu")
        limits = {"cpu.shares": _USUAL_SHARES * times} if first else {"cpu.weight": _USUAL_WEIGHT * times}
        return cls(around, limits, name)

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """What is started inside belongs to the group, and so does what that starts."""
        (self._own / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (self._around / "cgroup.procs").write_text(str(os.getpid()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """An engine's workers end a moment after it."""
        eventually(lambda: not (self._own / "cgroup.procs").read_text())
        self._own.rmdir()


def _around(controller: str) -> tuple[Path, bool]:
    """The folder of this process's group for a controller, and whether it is one of the first version."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return _GROUPS / controller / path.lstrip("/"), True
        if not controllers and (_GROUPS / "cgroup.controllers").exists():
            return _GROUPS / path.lstrip("/"), False
    raise RuntimeError(f"this process is in no control group for {controller}: mount cgroups")
