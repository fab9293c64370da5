"""Work at the log that is killed, interrupted or meets a full disk loses and doubles no row."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.file_limit import no_file_beyond
from tests.support.kept_log import DAY, compacted, folder_of, ids_of, write

from tidegate_operators.steps.log_upkeep import erase_from_log, folders
from tidegate_serving.contract.errors import ResourceExhausted
from tidegate_serving.files.exchange import exchange

KILLED = """
import hashlib, itertools, os, shutil, signal, sys, uuid
from pathlib import Path
import pyarrow.dataset
from tidegate_operators.steps.log_upkeep import compact_log, erase_from_log, folders

EVENTS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.scandir", "open", "exchanged"}
fresh, what, seen = Path(sys.argv[1]), sys.argv[2], 0
real = folders.exchange

def work(root, most):
    def step(event, arguments):
        global seen
        if event in EVENTS and any(str(root) in str(one) for one in arguments if one is not None):
            seen += 1
            if seen == most:
                os.kill(os.getpid(), signal.SIGKILL)
    def exchange(one, other):
        real(one, other)
        sys.audit("exchanged", str(other))
    folders.exchange = exchange
    sys.addaudithook(step)
    numbers = itertools.count(1)
    uuid.uuid4 = lambda: uuid.UUID(int=next(numbers) << 80)
    if what == "compact":
        compact_log(root, least_files=2, settled=0, grace=1e-3)
    else:
        erase_from_log(root, requests=["a", "c"], grace=1e-3)

def content(root):
    files = sorted(root.rglob("*"))
    told = [(str(one.relative_to(root)), one.read_bytes() if one.is_file() else b"") for one in files]
    return hashlib.sha256(repr(told).encode()).hexdigest()

most, left = 1, set()
while True:
    root = Path(f"{fresh}-{most}")
    shutil.copytree(fresh, root)
    child = os.fork()
    if child == 0:
        work(root, most)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        print(most - 1)
        sys.exit(os.WEXITSTATUS(status))
    most += 1
    found = content(root)
    if found in left:
        shutil.rmtree(root)
    left.add(found)
"""


@pytest.mark.parametrize("what", ["compact", "erase"])
def test_a_kill_at_any_point_loses_and_doubles_no_row(tmp_path: Path, what: str) -> None:
    """Every point is tried; of those that leave the same folder one is looked at."""
    fresh = tmp_path / "log"
    for ids in (["a", "b"], ["c"], ["d", "e"]):
        write(folder_of(fresh), ids)
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(fresh), what], check=True, timeout=400, capture_output=True, text=True
    )
    assert int(run.stdout) > 20, "points of a kill"
    wanted = ["a", "b", "c", "d", "e"] if what == "compact" else ["b", "d", "e"]
    killed = sorted(tmp_path.glob("log-*"))
    assert len(killed) > 8, "folders that differ"
    for root in killed:
        assert ids_of(root) in (["a", "b", "c", "d", "e"], wanted), root.name
        write(folder_of(root), ["late"])
        if what == "compact":
            compacted(root, least_files=2)
        else:
            erase_from_log(root, requests=["a", "c"], grace=0)
        assert ids_of(root) == [*wanted, "late"], f"{root.name}, after another run"
        assert not list(root.rglob(".date=*.upkeep"))


def test_what_came_before_a_kill_and_was_not_in_the_successor_is_brought_over(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    write(folder, ["new"])
    (folder / ".upkeep.json").write_text(json.dumps({"id": "abc", "handled": ["1-old.parquet"]}))
    replaced = folder.with_name(f".{folder.name}.abc.upkeep")
    old = write(replaced, ["new"])
    old.rename(replaced / "1-old.parquet")
    write(replaced, ["came late"])
    compacted(tmp_path)
    assert ids_of(tmp_path) == ["came late", "new"]
    assert not replaced.exists()


@pytest.mark.parametrize("size", [100, 600])
def test_a_full_disk_leaves_the_log_as_it_was_and_is_told(tmp_path: Path, size: int) -> None:
    for day in (DAY, "2026-03-02"):
        for number in range(10):
            write(folder_of(tmp_path, day), [f"{day}-{number}-{row}" for row in range(3)])
    before = ids_of(tmp_path)
    for work in (compacted, lambda root: erase_from_log(root, requests=[before[0]], grace=0)):
        with no_file_beyond(size), pytest.raises(ResourceExhausted, match=r"cannot be kept, .* \(ulimit -f\)"):
            work(tmp_path)
        assert ids_of(tmp_path) == before
        assert not list(tmp_path.rglob(".date=*"))
    assert compacted(tmp_path).folders == 2


def test_an_interruption_behind_the_exchange_loses_no_row_that_came_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        write(folder_of(tmp_path), [name])

    def interrupted(folder: Path, aside: Path) -> None:
        write(folder, ["late"])
        exchange(folder, aside)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(folders, "exchange", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compacted(tmp_path, least_files=2)
    compacted(tmp_path)
    assert ids_of(tmp_path) == ["a", "b", "late"]
