"""How much memory this process may use: that of the machine, or less where its control group has a limit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


def usable_memory(groups: Path = _GROUPS, own: Path = _OWN_GROUPS) -> int:
    """Bytes: the machine's, or the least limit of the control groups around this process, of either version."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *_limits(groups, own)])


def _limits(groups: Path, own: Path) -> Iterator[int]:
    for folder, name in _folders(groups, own):
        for place in (folder, *folder.parents):
            if not place.is_relative_to(groups):
                break
            limit = _read(place / name).strip()
            if limit.isdigit():
                yield int(limit)


def _folders(groups: Path, own: Path) -> Iterator[tuple[Path, str]]:
    """The process's folder in each hierarchy, and the file there. In a container the path is often that outside of it,
    so the hierarchy's root counts too, which then is the container's."""
    for line in _read(own).splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield groups / path.lstrip("/"), "memory.max"
        elif "memory" in controllers.split(","):
            yield groups / "memory" / path.lstrip("/"), "memory.limit_in_bytes"


def _read(path: Path) -> str:
    """Empty where there is no such file, as on other systems."""
    try:
        return path.read_text()
    except OSError:
        return ""
