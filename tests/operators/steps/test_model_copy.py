"""A model's folder to which somebody writes while it is published: nothing is published that was not looked at."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate_operators.steps import Publication, publish
from tidegate_operators.steps.model_copy import ModelFiles, copy_plain
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, ResourceExhausted

SIGNATURE = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": [-1]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": [-1]}],
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "trained"
    (folder / "extra").mkdir(parents=True)
    (folder / "weights").write_bytes(b"w" * 5000)
    (folder / "extra" / "words.txt").write_text("hello\n")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "words.txt").write_text("secret\n")
    (tmp_path / "copy").mkdir()
    return folder


def _swap_file_for_link(model: Path) -> None:
    (model / "extra" / "words.txt").unlink()
    (model / "extra" / "words.txt").symlink_to(model.parent / "secret" / "words.txt")


def _swap_folder_for_link(model: Path) -> None:
    shutil.rmtree(model / "extra")
    (model / "extra").symlink_to(model.parent / "secret")


def _swap_all_for_link(model: Path) -> None:
    shutil.rmtree(model)
    model.symlink_to(model.parent / "secret")


def _swap_file_for_pipe(model: Path) -> None:
    (model / "weights").unlink()
    os.mkfifo(model / "weights")


def _write_the_same_size(model: Path) -> None:
    found = (model / "weights").stat()
    (model / "weights").write_bytes(b"v" * 5000)
    os.utime(model / "weights", ns=(found.st_atime_ns, found.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file became a link": _swap_file_for_link,
    "a folder became a link": _swap_folder_for_link,
    "the whole became a link": _swap_all_for_link,
    "a file became a pipe": _swap_file_for_pipe,
    "a file vanished": lambda model: (model / "weights").unlink(),
    "a file appeared": lambda model: (model / "more").write_text("more"),
    "a file grew": lambda model: (model / "weights").write_bytes(b"w" * 6000),
    "a file was written again, at its old time": _write_the_same_size,
    "all was removed": shutil.rmtree,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_since_it_was_looked_at_is_named(change: str, model: Path) -> None:
    files = ModelFiles.of([model])
    CHANGES[change](model)
    with pytest.raises(FailedPrecondition, match=r"/trained.* changed while it was published: publish once"):
        files.copy(model.parent / "copy")
    copied = [path.read_bytes() for path in (model.parent / "copy").rglob("*") if path.is_file()]
    assert b"secret\n" not in copied


def test_a_folder_that_becomes_a_link_in_the_middle_of_a_copy_is_not_entered(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, copied = ModelFiles.of([model]), model.parent / "copy"

    def walk(top: Path) -> object:
        steps = os_walk(top)
        yield next(steps)
        _swap_folder_for_link(model)
        yield from steps

    os_walk = os.fwalk
    monkeypatch.setattr(os, "fwalk", walk)
    with pytest.raises(FailedPrecondition, match=r"extra/words\.txt changed while it was published"):
        files.copy(copied)
    assert not (copied / "extra" / "words.txt").exists()


def test_a_model_that_is_larger_than_the_disk_is_refused_before_it_fills_it(model: Path, tmp_path: Path) -> None:
    os.truncate(model / "weights", 1 << 42)
    publication = Publication(model, "m", 1, "python", tmp_path / "models", signature=SIGNATURE, example={"x": 1.0})
    with pytest.raises(ResourceExhausted, match=r"trained has 4,398,046,511,110 bytes and the disk of .* has .* left"):
        publish(publication)
    assert [path.name for path in (tmp_path / "models" / "m").iterdir()] == [".publish.lock"]


def test_two_files_of_one_name_are_refused_instead_of_one_of_them_published(model: Path, tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("others")
    with pytest.raises(InvalidInput, match="weights is there twice among the files of the version: rename one"):
        ModelFiles.of([model, tmp_path / "weights"]).copy(tmp_path / "copy")


def test_rights_and_time_of_a_file_are_kept_and_its_links_cut(model: Path, tmp_path: Path) -> None:
    (model / "weights").chmod(0o4755)
    os.utime(model / "weights", ns=(1_000_000_000, 2_000_000_000))
    os.link(model / "weights", tmp_path / "second_name")
    copy_plain(model / "weights", tmp_path / "copied")
    (tmp_path / "second_name").write_bytes(b"other")
    found = (tmp_path / "copied").stat()
    assert (found.st_mode & 0o7777, found.st_mtime_ns, found.st_nlink) == (0o755, 2_000_000_000, 1)
    assert (tmp_path / "copied").read_bytes() == b"w" * 5000
