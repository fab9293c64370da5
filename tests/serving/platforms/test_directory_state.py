"""Files that are swapped between their check and their load: such a version is refused, also where all is put back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.models.loading import ID, load_files, load_published
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.errors import Tampered
from tidegate_serving.platforms.platform import PlatformOptions
from tidegate_serving.workers.gauges import WorkerGauges
from tidegate_serving.workers.place import WorkerPlace
from tidegate_serving.workers.task import WorkerTask
from tidegate_serving.workers.version_workers import Staff, VersionWorkers

# The attack comes from the model itself while it is loaded, so that it comes neither too early nor too late.
MODEL = """
import os
from pathlib import Path

here = Path(__file__).parent
factor, aside = here / "factor.txt", here.parent / "aside"
{attack}

class Model:
    def predict(self, inputs):
        return {{"y": inputs["x"] * FACTOR}}
"""
WRITES = """
from pathlib import Path

from pydantic import BaseModel

Path(__file__).with_name("more").write_text("")

class Row(BaseModel):
    x: float

class Model:
    def predict(self, row: Row) -> Row:
        return row
"""
ATTACKS = {
    "a file, put back": (
        "factor.rename(aside); factor.write_text('9'); FACTOR = int(factor.read_text()); aside.replace(factor)",
        "factor.txt",
    ),
    "a file, written and written back": (
        "was = factor.stat(); factor.write_text('9'); FACTOR = int(factor.read_text()); factor.write_text('2'); "
        "os.utime(factor, ns=(was.st_atime_ns, was.st_mtime_ns))",
        "factor.txt",
    ),
    "the folder, put back": (
        "here.rename(aside); here.mkdir(); factor.write_text('9'); FACTOR = int(factor.read_text()); "
        "factor.unlink(); here.rmdir(); aside.rename(here)",
        "1",
    ),
    "a file more": ("FACTOR = 2; (here / 'more').write_text('')", "more"),
}


def published(root: Path, attack: str) -> Path:
    return publish(root, ID.name, 1, Draft(files={"model.py": MODEL.format(attack=attack), "factor.txt": "2"}))


@pytest.mark.parametrize(("attack", "named"), ATTACKS.values(), ids=ATTACKS)
def test_what_changes_while_it_is_loaded_is_refused(tmp_path: Path, attack: str, named: str) -> None:
    directory = published(tmp_path, attack)
    with pytest.raises(Tampered, match=rf"/{named} changed while {ID} was verified and loaded: see who writes there"):
        load_published(directory)


def test_a_worker_refuses_it_too(tmp_path: Path) -> None:
    directory = published(tmp_path, ATTACKS["a file, put back"][0])
    task = WorkerTask(directory, (directory / "manifest.json").read_text(), PlatformOptions())
    workers = VersionWorkers(ID, task, Staff(1, WorkerPlace()), WorkerGauges())
    with pytest.raises(Tampered, match=r"factor\.txt changed while"):
        workers.load()


def test_what_nobody_published_may_write_beside_itself(tmp_path: Path) -> None:
    load_files(tmp_path, "python", {"model.py": WRITES})
    assert (tmp_path / "more").exists()
