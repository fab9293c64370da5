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


def found_absent(program: str, folder: Path) -> list[str]:
    """What a model's own code looked for in vain, in a process of its own whose home lies in the folder."""
    source = f"""
import os, sys
from pathlib import Path
from tidegate_serving.probing.tries import Tries
tries = Tries(Path("own"))
tries.watch()
{program}
print(tries.look()["absent"])
"""
    environment = {"PATH": "/usr/bin", "HOME": str(folder / "home")}
    told = subprocess.check_output([sys.executable, "-c", source], cwd=folder, env=environment, text=True)
    return [one.strip("' ") for one in told.strip().strip("[]").split(",") if one]


@pytest.mark.parametrize(
    "look",
    [
        "os.path.exists({path!r})",
        "os.path.isfile({path!r})",
        "os.path.isdir({path!r})",
        "Path({path!r}).exists()",
        "Path({path!r}).is_file()",
        "os.access({path!r}, os.R_OK)",
        "list(Path({path!r}).glob('*'))",
        "__import__('glob').glob({path!r} + '/*.csv')",
    ],
)
def test_a_file_that_is_only_asked_for_is_told_of_where_it_is_not_there(tmp_path: Path, look: str) -> None:
    assert found_absent(look.format(path="/srv/no/such"), tmp_path) == ["/srv/no/such"]


@pytest.mark.parametrize(
    "path",
    [
        "/opt/rocm",
        "/run/secrets/kubernetes.io/serviceaccount/token",
        "/var/run/secrets/kubernetes.io",
        "/.nosuchenv",
        "/run/.containerenv",
        "home/.config/some/settings.toml",
    ],
)
def test_questions_about_the_machine_and_the_users_settings_are_not_told_of(tmp_path: Path, path: str) -> None:
    """Unless the model opens what it asks for."""
    assert found_absent(f"os.path.exists({path!r}), os.access({path!r}, os.R_OK)", tmp_path) == []
    opened = found_absent(f"try: open({path!r})\nexcept OSError: pass", tmp_path)
    assert opened == [os.path.realpath(path) if path.startswith("/") else f"~/{path.removeprefix('home/')}"]


@pytest.mark.parametrize("path", ["/opt/ml/model/weights.npy", "/srv/override.json", "/etc/model.conf"])
def test_what_a_model_may_have_laid_elsewhere_is_told_of(tmp_path: Path, path: str) -> None:
    assert found_absent(f"os.path.exists({path!r})", tmp_path) == [path]


def test_what_says_nothing_of_the_machine_is_not_told_of(tmp_path: Path) -> None:
    """The version's own folder, what is made later, a device, and what Python's library looks for."""
    program = """
os.path.exists("own/optional.json"), os.path.isdir("/dev/nvidia0"), os.path.exists("kept"), os.access("/", os.W_OK)
os.makedirs("some/where"), Path("kept").touch(), os.path.exists("home/.cache/some")
import linecache, mimetypes, shutil, traceback
mimetypes.init(), shutil.which("no-such-program"), linecache.getline("/srv/train.py", 3)
folder = os.open(".", os.O_RDONLY)
os.access("no/such", os.R_OK, dir_fd=folder)
assert os.stat in os.supports_dir_fd and os.access in os.supports_effective_ids
"""
    assert found_absent(program, tmp_path) == []


@pytest.mark.parametrize(
    "made",
    [
        "Path('out').write_text('1'), os.remove('out')",
        "os.close(os.open('out', os.O_WRONLY | os.O_CREAT)), os.remove('out')",
        "Path('in').touch(), os.rename('in', 'out'), os.remove('out')",
        "os.mkdir('out'), os.path.exists('out/found'), os.rmdir('out')",
    ],
)
def test_a_file_that_it_asks_for_before_it_makes_it_is_not_told_of_once_it_is_gone(tmp_path: Path, made: str) -> None:
    program = f"os.path.exists('out'), {made}, os.path.exists('out'), os.path.exists('other')"
    assert found_absent(program, tmp_path) == ["./other"]


def test_a_folder_that_it_made_holds_what_it_put_there(tmp_path: Path) -> None:
    program = """
import subprocess, tempfile
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "found")
    assert not file.exists()
    subprocess.run(["touch", file], check=True)
    assert file.exists()
assert not file.exists() and not os.path.exists(folder)
"""
    assert found_absent(program, tmp_path) == []


def test_what_it_opens_in_vain_to_change_it_is_not_what_it_made(tmp_path: Path) -> None:
    program = """
try:
    os.path.exists("kept"), open("kept", "r+")
except FileNotFoundError:
    pass
"""
    assert found_absent(program, tmp_path) == ["./kept"]


def test_names_that_python_tries_one_after_the_other_are_not_told_of(tmp_path: Path) -> None:
    program = """
import dbm.dumb, netrc, shelve
dbm.dumb.open("found", "n").close()
dbm.whichdb("found"), dbm.whichdb("/srv/no/such")
try:
    netrc.netrc()
except FileNotFoundError:
    pass
try:
    netrc.netrc("/srv/of/mine")
except FileNotFoundError:
    pass
"""
    assert found_absent(program, tmp_path) == ["/srv/no/such", "/srv/of/mine"]
