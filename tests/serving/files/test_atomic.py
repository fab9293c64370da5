"""A file or folder is there whole or not at all: while it is written, where that fails, and after a loss of power."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.file_limit import no_file_beyond

from tidegate_serving.contract.errors import PermissionRefused, ResourceExhausted, TidegateError, Unavailable
from tidegate_serving.files import (
    file_error,
    folder_aside,
    hold,
    lock,
    remove_folder,
    require_writable,
    sweep_asides,
    write_atomically,
    write_json,
    write_through_links,
    written_aside,
)


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_whole_and_its_folder_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.json"
    write_atomically(path, "größer")
    assert path.read_bytes() == "größer".encode()
    write_json(path, {"a": [1, None]})
    assert path.read_text() == '{\n "a": [\n  1,\n  null\n ]\n}\n'
    assert listed(path.parent) == ["file.json"]


def test_a_file_that_a_person_names_is_written_where_its_links_lead(tmp_path: Path) -> None:
    there = tmp_path / "elsewhere" / "list.config"
    there.parent.mkdir()
    there.write_text("before")
    between, link = tmp_path / "between", tmp_path / "list.config"
    between.symlink_to(there)
    link.symlink_to("between")
    write_through_links(link, "after")
    assert (link.is_symlink(), between.is_symlink(), there.read_text()) == (True, True, "after")
    assert listed(there.parent) == ["list.config"]


def test_numbers_that_json_lacks_leave_the_old_file_alone(tmp_path: Path) -> None:
    write_json(tmp_path / "f", 1)
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "f", float("nan"))
    assert (listed(tmp_path), (tmp_path / "f").read_text()) == (["f"], "1\n")


def test_a_writer_that_fails_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail() -> None:
        with written_aside(path) as aside:
            aside.write_text("new")
            assert path.read_text() == "old"
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail()
    assert (listed(tmp_path), path.read_text()) == (["file"], "old")


def test_a_disk_that_takes_nothing_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert (listed(tmp_path), path.read_text()) == (["file"], "old")


def test_the_error_of_a_full_disk_names_what_was_to_be_written(tmp_path: Path) -> None:
    def fill_folder() -> None:
        with folder_aside(tmp_path / "folder") as aside:
            (aside / "inside").write_bytes(b"too long")

    def fill_file() -> None:
        write_atomically(tmp_path / "file", b"too long")

    for name, write in (("file", fill_file), ("folder", fill_folder)):
        with no_file_beyond(3), pytest.raises(OSError, match="File too large") as raised:
            write()
        assert raised.value.filename == str(tmp_path / name)
    assert listed(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "kind", "cure"),
    [
        (errno.EFBIG, ResourceExhausted, "ulimit -f"),
        (errno.EDQUOT, ResourceExhausted, "free space"),
        (errno.EROFS, PermissionRefused, "mend the permissions"),
        (errno.EMFILE, Unavailable, "ulimit -n"),
    ],
)
def test_what_the_file_system_refuses_is_told_with_its_cure(number: int, kind: type[TidegateError], cure: str) -> None:
    found = file_error(OSError(number, os.strerror(number)), Path("/state/m.json"))
    assert type(found) is kind
    assert "/state/m.json cannot be" in found.message
    assert cure in found.message


def test_writers_of_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with written_aside(path) as one, written_aside(path) as other:
        assert one != other
        one.write_text("one")
        other.write_text("other")
    assert (listed(tmp_path), path.read_text()) == (["file"], "one")


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Everything that was synced, and each renaming, in order."""
    events: list[str] = []
    sync = os.fsync

    def record(descriptor: int) -> None:
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        events.append(f"sync {name.split('.')[1] if name.startswith('.') else name}")
        sync(descriptor)

    def renaming(method: Callable[[Path, Path], Path]) -> Callable[[Path, Path], Path]:
        def renamed(self: Path, target: Path) -> Path:
            events.append(f"rename to {target.name}")
            return method(self, target)

        return renamed

    monkeypatch.setattr(os, "fsync", record)
    monkeypatch.setattr(Path, "replace", renaming(Path.replace))
    monkeypatch.setattr(Path, "rename", renaming(Path.rename))
    return events


def test_a_file_is_on_disk_before_its_name_is_and_both_before_the_return(tmp_path: Path, synced: list[str]) -> None:
    write_atomically(tmp_path / "file", b"data")
    assert synced == ["sync file", "rename to file", f"sync {tmp_path.name}"]


def test_all_in_a_folder_is_on_disk_before_its_name_is(tmp_path: Path, synced: list[str]) -> None:
    with folder_aside(tmp_path / "7") as aside:
        (aside / "nested").mkdir()
        (aside / "nested" / "weights").write_bytes(b"w")
        (aside / "manifest").write_bytes(b"m")
    assert sorted(synced[:3]) == ["sync manifest", "sync nested", "sync weights"]
    assert synced[3:] == ["sync 7", "rename to 7", f"sync {tmp_path.name}"]
    assert (tmp_path / "7" / "nested" / "weights").read_bytes() == b"w"


def test_a_folder_that_could_not_be_filled_is_gone(tmp_path: Path) -> None:
    def fail() -> None:
        with folder_aside(tmp_path / "7", ".filling") as aside:
            assert (aside.name[:3], aside.name[-8:]) == (".7.", ".filling")
            (aside / "weights").write_bytes(b"w")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail()
    assert listed(tmp_path) == []


def test_a_folder_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "weights").write_bytes(b"old")
    with pytest.raises(OSError, match="not empty"), folder_aside(tmp_path / "7") as aside:
        (aside / "weights").write_bytes(b"new")
    assert (listed(tmp_path), (tmp_path / "7" / "weights").read_bytes()) == (["7"], b"old")


def test_a_folder_loses_its_name_before_its_files(tmp_path: Path, synced: list[str]) -> None:
    (tmp_path / "7" / "nested").mkdir(parents=True)
    remove_folder(tmp_path / "7")
    remove_folder(tmp_path / "7")
    assert listed(tmp_path) == []
    assert synced[0].startswith("rename to .7.")


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold(path):
        assert lock(path) is None
    taken = lock(path)
    assert taken is not None
    taken.close()


def test_what_killed_writers_left_aside_is_swept_and_nothing_else(tmp_path: Path) -> None:
    old, young = tmp_path / ".over-time.json.0a1b2c3d.aside", tmp_path / ".over-time.json.4e5f6a7b.aside"
    others = [tmp_path / name for name in ("over-time.json", "mine.aside", ".hidden")]
    for path in (old, young, *others):
        path.write_text("{}")
    for path in (old, *others):
        os.utime(path, (1e9, 1e9))
    sweep_asides(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([young, *others])


def test_a_folder_that_nothing_can_be_written_into_is_told_before_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_writable(tmp_path / "to" / "be" / "made")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="file/report"):
        require_writable(tmp_path / "file" / "report")
    monkeypatch.setattr("os.access", lambda place, _: place != tmp_path)
    with pytest.raises(PermissionError, match="report"):
        require_writable(tmp_path / "report")
