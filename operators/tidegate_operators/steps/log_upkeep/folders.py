"""The day folders of a log, and how the files of one are replaced all at once while it is written and read.

    model=NAME/version=N/date=DAY/             what readers see
    model=NAME/version=N/.date=DAY.ID.upkeep/  its successor while that is made; what it replaced afterwards
    model=NAME/version=N/.date=DAY.ID.listed/  the names that it had, without rows, for whoever was just listing them

Both change places in one step. `.upkeep.json` in the successor holds the ID and says which files it stands for, so that
after a kill at any point it is known which of the two has had its day.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import Unavailable
from tidegate_serving.files import file_error, lock, remove_folder, sync, write_json
from tidegate_serving.files.exchange import exchange
from tidegate_serving.inference_log.reader import check_log

_MANIFEST = ".upkeep.json"
_ENDING, _REMOVED, _LISTED = ".upkeep", ".removed", ".listed"
_LISTED_SECONDS = 3600.0
_UNFINISHED = ".*.aside"
"""What an engine writes before it has its name; an older one is of an engine that was killed."""
_UNFINISHED_SECONDS = 3600.0
_LOCK = ".upkeep.lock"
_PATTERNS = ("model=*/version=*", "*/model=*/version=*")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A folder that was left as it is, and why."""

    folder: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Work at one log, by one process at a time.

    What was replaced stays for `grace` seconds, and the names of its files for an hour, unless `grace` is 0: a reader
    that is listing it, however slowly, finds names of files that are gone, which is an error, not fewer rows.
    """

    root: Path
    grace: float

    def replace(
        self, folder: Path, handled: Sequence[Path], kept: Sequence[Path], write: Callable[[Path], None]
    ) -> None:
        """Puts what `write` makes and the `kept` files in the place of all of `handled`, in one step; what came to the
        folder meanwhile stays. Where `write` fails, nothing changes."""
        name = uuid.uuid4().hex
        aside = folder.with_name(f".{folder.name}.{name}{_ENDING}")
        aside.mkdir()
        try:
            _tell(aside, name, handled)
            for file in kept:
                os.link(file, aside / file.name)
            write(aside)
            late = [file for file in data_files(folder) if file not in handled]
            for file in late:
                os.link(file, aside / file.name)
            _tell(aside, name, [*handled, *late])
            for file in aside.iterdir():
                sync(file)
            sync(aside)
            exchange(folder, aside)
        except BaseException:
            if _read(folder).get("id") != name:  # else it is what was replaced, with what came late
                shutil.rmtree(aside)
            raise
        sync(folder.parent)
        _bring_over(aside, folder)
        time.sleep(self.grace)
        _bring_over(aside, folder)
        if self.grace:
            _leave_names(aside, {file.name for file in handled} - {file.name for file in kept})
        else:
            shutil.rmtree(aside)

    def remove(self, folder: Path) -> None:
        """Removes a day: its name is gone before its files are."""
        remove_folder(folder, _REMOVED)


@contextlib.contextmanager
def upkeep(root: Path, grace: float) -> Iterator[Upkeep]:
    """Work at the log under `root`, after what a killed one left is put right.

    NotFound where there is no folder, Unavailable where another process is at work. What the file system refuses
    meanwhile is told as by `files.keep`; what is half done then, the next one puts right.
    """
    held = lock(check_log(root) / _LOCK)
    if held is None:
        raise Unavailable(f"another process keeps the log {root} in order just now: let it end, then try again")
    with held:
        try:
            _put_right(root)
            yield Upkeep(root, grace)
        except OSError as error:
            raise file_error(error, Path(error.filename or root)) from error


def day_folders(root: Path) -> list[Path]:
    """The folders of all days of all models and versions, oldest day first; in a group's log those of each engine."""
    found = {folder for pattern in _PATTERNS for folder in root.glob(f"{pattern}/date=*") if day_of(folder) is not None}
    return sorted(found, key=lambda folder: (str(day_of(folder)), folder))


def day_of(folder: Path) -> date | None:
    """The day whose rows it holds; None for a folder of another name."""
    try:
        return date.fromisoformat(folder.name.removeprefix("date="))
    except ValueError:
        return None


def data_files(folder: Path) -> list[Path]:
    """The files that readers see, oldest first; a pipe or a folder of such a name is none."""
    return sorted(file for file in folder.glob("*.parquet") if not file.name.startswith(".") and file.is_file())


def unfinished_files(folder: Path) -> list[Path]:
    """What an engine writes just now, or was killed while it wrote."""
    return sorted(file for file in folder.glob(_UNFINISHED) if file.is_file())


def _put_right(root: Path) -> None:
    for folder in day_folders(root):
        for file in unfinished_files(folder):
            with contextlib.suppress(FileNotFoundError):  # its engine has just renamed it
                if time.time() - file.stat().st_mtime > _UNFINISHED_SECONDS:
                    file.unlink()
    for pattern in _PATTERNS:
        for aside in root.glob(f"{pattern}/.date=*{_ENDING}"):
            unfinished = _read(aside).get("id") == _id_of(aside) or not any(aside.iterdir())
            if not unfinished:
                folder = _place_of(aside)
                folder.mkdir(exist_ok=True)
                _bring_over(aside, folder)
            shutil.rmtree(aside)
        for gone in root.glob(f"{pattern}/.date=*{_REMOVED}"):
            shutil.rmtree(gone)
        for listed in root.glob(f"{pattern}/.date=*{_LISTED}"):
            if time.time() - listed.stat().st_mtime > _LISTED_SECONDS:
                shutil.rmtree(listed)


def _leave_names(replaced: Path, merged: Set[str]) -> None:
    """Empties the files that are read no more, and takes the others away. A rename onto a name leaves that in its place
    in the folder, so that a listing under way finds it; whoever has a file open keeps its rows."""
    empty = replaced / ".empty"
    for file in list(replaced.iterdir()):
        if file.name in merged:
            empty.touch()
            empty.replace(file)
        elif file.is_dir():
            shutil.rmtree(file)
        else:
            file.unlink()
    replaced.rename(replaced.with_suffix(_LISTED))


def _bring_over(replaced: Path, folder: Path) -> None:
    """What came to the folder while its successor was made, an engine's unfinished files too."""
    told = _read(folder)
    handled = told.get("handled", ()) if told.get("id") == _id_of(replaced) else ()
    for file in list(replaced.iterdir()):
        if file.name not in handled and file.name != _MANIFEST:
            with contextlib.suppress(FileNotFoundError):  # its engine has just removed or renamed it
                file.rename(folder / file.name)
    sync(folder)


def _tell(aside: Path, name: str, handled: Sequence[Path]) -> None:
    write_json(aside / _MANIFEST, {"id": name, "handled": sorted(file.name for file in handled)})


def _read(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _place_of(aside: Path) -> Path:
    return aside.with_name(aside.name[1:].removesuffix(_ENDING).rpartition(".")[0])


def _id_of(aside: Path) -> str:
    return aside.name.removesuffix(_ENDING).rpartition(".")[2]
