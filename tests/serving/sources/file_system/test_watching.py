"""Base paths named one by one: problems by servable, directories without a manifest, options that change."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.eventually import eventually
from tests.support.lifecycle.fakes import FakeTarget
from tests.support.models.versions import fill, publish

from tidegate_serving.admission import AdmitUnverified
from tidegate_serving.contract.errors import NotFound, Unavailable
from tidegate_serving.sources.context import SourceContext
from tidegate_serving.sources.file_system.source import NAME, FileSystemOptions, FileSystemSource
from tidegate_serving.sources.file_system.version_policy import VersionPolicy
from tidegate_serving.sources.file_system.watched import WatchOptions
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.problems import SourceProblem, SourceProblems

WATCH = WatchOptions(poll_seconds=0.02, quiet_seconds=0.0)


class Bench:
    """Servables under TMP/NAME, each with a base path of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.target = FakeTarget()
        self.owners = Owners()
        self.problems = SourceProblems()
        self.heard: list[tuple[str, bool]] = []
        self.problems.subscribe(self._hear)
        self.admission = AdmitUnverified()
        self.context = SourceContext(self.target, self.admission, self.owners, self.problems)
        self.source: FileSystemSource | None = None

    def watch(self, *names: str, watch: WatchOptions = WATCH, **overrides: WatchOptions) -> FileSystemSource:
        self.source = FileSystemSource(self.options(*names, watch=watch, **overrides), self.context)
        return self.source

    def options(self, *names: str, watch: WatchOptions = WATCH, **overrides: WatchOptions) -> FileSystemOptions:
        return FileSystemOptions(None, {name: self.folder / name for name in names}, watch, overrides)

    def said(self, name: str) -> str:
        problem = self.problems.of(name)
        return problem.error.message if problem else ""

    def _hear(self, problem: SourceProblem, present: bool) -> None:
        self.heard.append((problem.servable, present))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    if made.source is not None:
        made.source.stop()


def tell(source: FileSystemSource, options: FileSystemOptions, admission: AdmitUnverified) -> None:
    """As a reload does."""
    source.give_up(options, admission)
    source.take_up()


def test_a_missing_base_path_is_its_servables_problem_alone(bench: Bench) -> None:
    publish(bench.folder, "b", 1)
    source = bench.watch("a", "b")
    source.poll()
    assert bench.target.wanted.keys() == {"b"}
    problem = bench.problems.of("a")
    assert problem is not None
    assert isinstance(problem.error, NotFound)
    assert "'a'" in problem.error.message
    assert str(bench.folder / "a") in problem.error.message
    publish(bench.folder, "a", 7)
    source.poll()
    assert (bench.target.numbers("a"), bench.problems.of("a")) == ([7], None)
    assert bench.heard == [("a", True), ("a", False)]


def test_a_base_path_that_vanishes_keeps_what_it_had(bench: Bench) -> None:
    directory = publish(bench.folder, "a", 1)
    source = bench.watch("a")
    source.poll()
    shutil.move(directory.parent, bench.folder / "away")
    source.poll()
    assert bench.target.calls == [("a", [1])]
    assert "could not find base path" in bench.said("a")
    shutil.move(bench.folder / "away", directory.parent)
    source.poll()
    assert bench.target.numbers("a") == [1]


def test_a_base_path_that_cannot_be_listed_keeps_what_it_had(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        publish(bench.folder, name, 1)
    source = bench.watch("a", "b")
    source.poll()
    publish(bench.folder, "b", 2)
    real = os.scandir

    def fails(path: Path) -> Any:
        if path.name == "a":
            raise OSError(5, "Input/output error", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", fails)
    source.poll()
    assert (bench.target.numbers("a"), bench.target.numbers("b")) == ([1], [2])
    problem = bench.problems.of("a")
    assert problem is not None
    assert isinstance(problem.error, Unavailable)


def test_a_path_without_versions_is_said_and_an_emptied_one_gives_up(bench: Bench) -> None:
    (bench.folder / "a" / "latest").mkdir(parents=True)
    source = bench.watch("a")
    source.poll()
    assert "no complete version of servable 'a'" in bench.said("a")
    directory = publish(bench.folder, "a", 1)
    source.poll()
    shutil.rmtree(directory)
    source.poll()
    source.poll()
    assert bench.target.calls == [("a", [1]), ("a", [])]
    assert bench.owners.owner("a") == ""


def test_versions_always_present_keeps_the_last_one(bench: Bench) -> None:
    directory = publish(bench.folder, "a", 1)
    source = bench.watch("a", watch=replace(WATCH, always_present=True))
    source.poll()
    shutil.rmtree(directory)
    source.poll()
    source.poll()
    assert bench.target.calls == [("a", [1])]
    assert "versions_always_present" in bench.said("a")


def test_no_versions_wanted_is_no_problem(bench: Bench) -> None:
    publish(bench.folder, "a", 1)
    source = bench.watch("a")
    source.poll()
    none = WatchOptions(VersionPolicy(specific=frozenset()))
    tell(source, bench.options("a", a=none), bench.admission)
    source.poll()
    assert (bench.target.numbers("a"), bench.said("a")) == ([], "")


def test_an_unpublished_directory_is_wanted_once_it_is_quiet(bench: Bench) -> None:
    source = bench.watch("a", watch=replace(WATCH, unpublished=True))
    fill(bench.folder / "a" / "3", {"variables/variables.index": "x"})
    source.poll()
    source.poll()
    assert bench.target.wanted == {}, "a SavedModel without its saved_model.pb is half a copy"
    assert not source.waiting()
    fill(bench.folder / "a" / "3", {"saved_model.pb": "x"})
    source.poll()
    (wanted,) = bench.target.wanted["a"]
    payload = wanted.payload
    assert payload is not None
    assert (payload.unpublished, payload.platform, payload.manifest_digest) == (True, "tensorflow", "")
    before = payload.revision
    fill(bench.folder / "a" / "3", {"saved_model.pb": "other"})
    bench.watch("a", watch=replace(WATCH, unpublished=True)).poll()
    (again,) = bench.target.wanted["a"]
    assert again.payload is not None
    assert again.payload.revision != before, "a version that failed is tried at once when its files changed"


def test_an_unpublished_directory_that_is_not_quiet_is_waited_for(bench: Bench) -> None:
    unpublished = replace(WATCH, unpublished=True, platform="python", quiet_seconds=1000)
    fill(bench.folder / "a" / "1", {"model.py": "x"})
    source = bench.watch("a", watch=unpublished)
    source.start()
    assert source.waiting() == {"a"}
    assert bench.said("a") == ""
    tell(source, bench.options("a", watch=replace(unpublished, quiet_seconds=0)), bench.admission)
    assert (source.waiting(), bench.target.numbers("a")) == (frozenset(), [1])


def test_without_leave_an_unpublished_directory_is_no_version(bench: Bench) -> None:
    fill(bench.folder / "a" / "1", {"saved_model.pb": "x"})
    bench.watch("a").poll()
    assert bench.target.wanted == {}


def test_files_tell_the_platform_of_a_directory_without_a_manifest_where_nobody_names_one(bench: Bench) -> None:
    fill(bench.folder / "a" / "1", {"model.onnx": "x", "notes.txt": "x"})
    fill(bench.folder / "b" / "1", {"model.onnx": "x"})
    bench.watch("a", "b", watch=replace(WATCH, unpublished=True), b=replace(WATCH, unpublished=True, platform="python"))
    assert bench.source is not None
    bench.source.poll()
    told = {name: wanted[0].payload for name, wanted in bench.target.wanted.items()}
    assert {name: payload and payload.platform for name, payload in told.items()} == {"a": "onnx", "b": "python"}


@pytest.mark.parametrize(
    ("file", "watch", "cure"),
    [
        ("model.onnx", WATCH, "set allow_unpublished to serve it as it is"),
        ("weights.bin", replace(WATCH, unpublished=True), "name what loads it as models.a.platform"),
        (
            "keras_metadata.pb",
            replace(WATCH, unpublished=True, platform="tensorflow"),
            "put the saved_model.pb there that it lacks",
        ),
    ],
)
def test_what_is_not_served_is_said_once_it_is_not_written_any_more(
    bench: Bench, caplog: pytest.LogCaptureFixture, file: str, watch: WatchOptions, cure: str
) -> None:

    def said() -> list[str]:
        return [message for message in caplog.messages if "is not served" in message]

    fill(bench.folder / "a" / "1", {file: "x"})
    source = bench.watch("a", watch=replace(watch, quiet_seconds=1000))
    source.start()
    source.poll()
    assert not said(), "it may still be on its way"
    tell(source, bench.options("a", watch=watch), bench.admission)
    source.poll()
    source.poll()
    assert said() == [
        f"{bench.folder}/a/1 has no manifest and is not served: publish it with `tidegate publish`, or {cure}"
    ]
    assert (bench.target.numbers("a"), source.waiting()) == ([], frozenset())


def test_a_path_that_stalls_holds_up_no_other(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        publish(bench.folder, name, 1)
    source = bench.watch("a", "b")
    source.start()
    gate, stalled, real = threading.Event(), threading.Event(), os.scandir

    def stalls(path: Path) -> Any:
        if path.name == "a":
            stalled.set()
            assert gate.wait(30)
        return real(path)

    monkeypatch.setattr(os, "scandir", stalls)
    assert stalled.wait(10)
    publish(bench.folder, "b", 2)
    eventually(lambda: bench.target.numbers("b") == [2])
    gate.set()


def test_each_servable_has_an_interval_of_its_own(bench: Bench) -> None:
    for name in ("a", "b"):
        publish(bench.folder, name, 1)
    source = bench.watch("a", "b", a=replace(WATCH, poll_seconds=1000))
    source.start()
    for name in ("a", "b"):
        publish(bench.folder, name, 2)
    eventually(lambda: bench.target.numbers("b") == [2])
    assert bench.target.numbers("a") == [1]


def test_other_options_count_at_once(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        for version in (1, 2, 3):
            publish(bench.folder, name, version)
    never = replace(WATCH, poll_seconds=0)
    source = bench.watch("a", "b", watch=never)
    source.start()
    tell(source, bench.options("b", "c", watch=never, b=replace(never, policy=VersionPolicy(2))), bench.admission)
    assert {name: bench.target.numbers(name) for name in "abc"} == {"a": [], "b": [3, 2], "c": [3]}
    assert [bench.owners.owner(name) for name in "abc"] == ["", NAME, NAME]


def test_another_path_replaces_the_versions_without_a_gap(bench: Bench) -> None:
    publish(bench.folder, "a", 1)
    source = bench.watch("a")
    source.poll()
    elsewhere = bench.folder / "elsewhere"
    publish(elsewhere, "a", 2)
    tell(source, FileSystemOptions(None, {"a": elsewhere / "a"}, WATCH), bench.admission)
    source.poll()
    assert bench.target.numbers("a") == [2]
    assert ("a", []) not in bench.target.calls
    tell(source, FileSystemOptions(None, {"a": bench.folder / "nowhere"}, WATCH), bench.admission)
    source.poll()
    assert bench.target.numbers("a") == [2], "a path that is missing keeps what was served"


def test_new_servables_appear_under_a_root_and_vanished_ones_stay(bench: Bench) -> None:
    publish(bench.folder, "a", 1)
    source = FileSystemSource(FileSystemOptions(bench.folder, watch=WATCH), bench.context)
    source.start()
    publish(bench.folder, "b", 1)
    eventually(lambda: bench.target.numbers("b") == [1])
    shutil.rmtree(bench.folder / "b")
    publish(bench.folder, "c", 1)
    eventually(lambda: bench.target.numbers("c") == [1])
    source.poll()
    source.stop()
    assert bench.target.numbers("b") == [1]
    assert ("b", []) not in bench.target.calls


def test_a_folder_that_never_held_a_version_is_forgotten_with_its_problem(bench: Bench) -> None:
    source = FileSystemSource(FileSystemOptions(bench.folder, watch=WATCH), bench.context)
    publish(bench.folder, "a", 1)
    (bench.folder / "-odd name").mkdir()
    source.poll()
    assert bench.said("-odd name") == "", "nothing that a servable could be lies there, such as in lost+found"
    (bench.folder / "-odd name" / "1").mkdir()
    source.poll()
    assert "servable name '-odd name' cannot be used" in bench.said("-odd name")
    shutil.rmtree(bench.folder / "-odd name")
    source.poll()
    assert bench.said("-odd name") == ""


def test_a_folder_whose_name_is_no_utf8_is_told_as_utf8_can_say_it(bench: Bench) -> None:
    source = FileSystemSource(FileSystemOptions(bench.folder, watch=WATCH), bench.context)
    (bench.folder / os.fsdecode(b"mod\xe8le") / "1").mkdir(parents=True)
    source.poll()
    told = [change.servable for change in bench.problems.all()]
    assert told == ["mod\\udce8le"]
    assert "cannot be used" in bench.said(told[0])


def test_an_entry_that_cannot_be_looked_at_hurts_no_other(bench: Bench) -> None:
    source = FileSystemSource(FileSystemOptions(bench.folder, watch=WATCH), bench.context)
    publish(bench.folder, "a", 1)
    (bench.folder / "loop").symlink_to(bench.folder / "loop")
    source.poll()
    assert bench.target.numbers("a") == [1]
    assert "'loop' cannot be looked at, mend or remove it: [Errno 40]" in bench.said("loop")
    assert bench.said("") == ""
    (bench.folder / "loop").unlink()
    source.poll()
    assert bench.said("loop") == ""
    publish(bench.folder, "loop", 1)
    source.poll()
    assert bench.target.numbers("loop") == [1]


def test_a_version_that_cannot_be_read_is_an_error_of_its_own(bench: Bench) -> None:
    publish(bench.folder, "a", 1)
    (bench.folder / "a" / "2").symlink_to(bench.folder / "a" / "2")
    source = bench.watch("a")
    source.poll()
    wanted = {version.id.version: version.error for version in bench.target.wanted["a"]}
    assert wanted[1] is None
    assert isinstance(wanted[2], Unavailable)
    assert "a/2 of a:2 cannot be read" in wanted[2].message


def test_a_version_that_cannot_be_read_any_more_stays_as_it_was(bench: Bench) -> None:
    publish(bench.folder, "a", 1)
    (bench.folder / "elsewhere").mkdir()
    moved = publish(bench.folder, "b", 2).rename(bench.folder / "elsewhere" / "2")
    text = (moved / "manifest.json").read_text().replace('"b"', '"a"')
    (moved / "manifest.json").write_text(text)
    (bench.folder / "a" / "2").symlink_to(moved)
    source = bench.watch("a")
    source.poll()
    assert bench.target.numbers("a") == [2]
    moved.rename(bench.folder / "elsewhere" / "away")
    source.poll()
    assert bench.target.numbers("a") == [2], "the mount behind the link may come back"
    assert "a/2 cannot be read, what a:2 was is kept" in bench.said("a")
    (bench.folder / "elsewhere" / "away").rename(moved)
    source.poll()
    assert bench.said("a") == ""
    (bench.folder / "a" / "2").unlink()
    source.poll()
    assert bench.target.numbers("a") == [1]
