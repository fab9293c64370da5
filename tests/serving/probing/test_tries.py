"""What a version tries besides answering, as Python's audit events tell it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from tidegate_serving.probing import tries as tries_module
from tidegate_serving.probing.tries import Tries


def test_a_file_is_told_of_that_another_machine_may_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the version's own, nor the system's, nor a library's; one that is not there shows by itself."""
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(tries_module, "_SYSTEM", ("/etc",))
    monkeypatch.setattr(tries_module, "_COMMON", ())
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
        (folder / "weights").touch()
    monkeypatch.chdir(own)
    tries = Tries(own)
    for path in (str(other / "weights"), str(own / "weights"), "/etc/passwd", np.__file__, "/srv/no/such/file", 3):
        tries.heard("open", (path, "r", os.O_RDONLY))
    assert tries.look()["reads"] == [os.path.realpath(other / "weights")]


def test_a_file_is_told_of_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it would be, unless it is written later, as what a version keeps from call to call."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])  # as of `python -m`
    monkeypatch.setattr(tries_module, "_SYSTEM", ("/etc", "/usr"))
    monkeypatch.setattr(tries_module, "_COMMON", ())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    tries = Tries(tmp_path / "own")
    library = f"{sys.prefix}/no/such"
    for path in ("own/w", "/srv/no/w", "/etc/no/w", "/usr/no/w", "w", "kept", "home/w", "home/.cache/w", library):
        tries.heard("open", (path, "r", os.O_RDONLY))
    (tmp_path / "kept").touch()
    assert tries.look()["absent"] == [f"{tmp_path}/own/w", "/srv/no/w", "/etc/no/w", "./w", "~/w"]


def test_what_a_library_looks_for_in_the_system_and_at_home_is_its_own_affair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model's own looks there count, also by Python's library, and so do a library's beside the model."""
    monkeypatch.setattr(tries_module, "_COMMON", ())
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "work/home"))
    tries = Tries(tmp_path / "own")

    def look(path: str, folder: str) -> None:
        space = {"heard": tries.heard, "arguments": (path, "r", os.O_RDONLY)}
        exec(compile("heard('open', arguments)", f"{sysconfig.get_path(folder)}/some.py", "exec"), space)

    for path in ("/etc/clock", "home/.netrc", "w", str(tmp_path / "own/w")):
        look(path, "purelib")
    look("/etc/own", "stdlib")
    assert tries.look()["absent"] == ["./w", f"{tmp_path}/own/w", "/etc/own"]


def test_what_is_opened_from_a_folders_descriptor_is_not_looked_for_in_the_working_folder(tmp_path: Path) -> None:
    """Python tells its name alone. In a process of its own: what listens there does so until the end."""
    source = """
import os, tempfile
from pathlib import Path
from tidegate_serving.probing.tries import Tries
tries = Tries(Path("own"))
tries.watch()
with tempfile.TemporaryDirectory() as folder:
    os.mkdir(f"{folder}/within")
print(tries.look()["absent"])
"""
    assert subprocess.check_output([sys.executable, "-c", source], cwd=tmp_path, text=True) == "[]\n"
