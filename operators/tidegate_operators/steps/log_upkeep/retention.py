"""Removes the oldest days of a log: beyond an age, or until the rest is no larger than asked."""

from __future__ import annotations

import contextlib
import stat
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from tidegate_operators.steps.log_upkeep.folders import day_folders, day_of, upkeep
from tidegate_serving.contract.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Retention:
    """Which folders went, or would go, oldest first; how many bytes that freed, and how many are left."""

    removed: tuple[Path, ...]
    freed_bytes: int
    left_bytes: int


def retain_log(
    root: Path,
    *,
    days: int | None = None,
    most_bytes: int | None = None,
    today: date | None = None,
    dry_run: bool = False,
) -> Retention:
    """Keeps the last `days` days and at most `most_bytes`, whichever is less; whole days go, the oldest first.

    A day is that of the event, as its folder says, else of arrival; today's and later ones always stay. All files of a
    day count, so that PredictionLogs under a root of their own are kept within limits too. Raises as
    `folders.upkeep`; InvalidInput where neither limit is given.
    """
    if days is None and most_bytes is None:
        raise InvalidInput("nothing says what goes: give days (--days), or most_bytes (--most-gb)")
    now = today or datetime.now(UTC).date()
    if days is not None and days < 1:
        raise InvalidInput(f"days is {days}: keep 1 or more")
    oldest = now - timedelta(days=days - 1) if days is not None else date.min
    with upkeep(root, grace=0.0) as work:
        folders = [(folder, day_of(folder) or now, _bytes(folder)) for folder in day_folders(root)]
        left = sum(size for _, _, size in folders)
        removed, freed = [], 0
        for folder, day, size in folders:
            too_large = most_bytes is not None and left - freed > most_bytes
            if day < now and (day < oldest or too_large):
                if not dry_run:
                    work.remove(folder)
                removed.append(folder)
                freed += size
    return Retention(tuple(removed), freed, left - freed)


def _bytes(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # its engine has just renamed it
            about = file.lstat()
            total += 0 if stat.S_ISDIR(about.st_mode) else about.st_size
    return total
