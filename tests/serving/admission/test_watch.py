"""What would not be let in again is told once, taken back once mended, and looked for only when something changed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tidegate_serving.admission import AdmissionWatch, Standing
from tidegate_serving.admission.watch import Overrides
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.sources.problems import SourceProblem, SourceProblems

ONE, TWO = ServableId("m", 1), ServableId("m", 2)


class Scene:
    """Two versions, one of which serves; `notes` are what the admission says of the manifest `d1`."""

    def __init__(self) -> None:
        self.notes: tuple[str, ...] = ()
        self.revision = 0
        self.asked = 0
        self.remarks: list[str] = []
        self.gates: tuple[str, ...] = ()
        self.overrides: list[Overrides] = []
        self.heard: list[tuple[str, bool]] = []
        self.states = {ONE: State.AVAILABLE, TWO: State.END}
        problems = SourceProblems()
        problems.subscribe(self._hear)
        self.watch = AdmissionWatch(
            self, self.manifests, self.state, problems, self.remarks.append, self.overrides.append
        )

    def _hear(self, problem: SourceProblem, present: bool) -> None:
        self.heard.append((problem.error.message, present))

    def check(self, directory: Path, manifest: Manifest, digest: str) -> None:
        raise AssertionError("nothing is admitted here")

    def vouch(self, digests: Collection[str]) -> None:
        """Nothing is refused for its date."""

    def standing(self, digest: str) -> Standing:
        self.asked += 1
        return Standing(None, self.notes, self.gates) if digest == "d1" else Standing(notes=("REVOKED at once",))

    def mark(self) -> object:
        return self.revision

    def manifests(self, of: Collection[ServableId] | None = None) -> dict[ServableId, str]:
        every = {ONE: "d1", TWO: "d2"}
        return {servable: digest for servable, digest in every.items() if of is None or servable in of}

    def state(self, id: ServableId) -> StateChange:
        return StateChange(id, self.states[id])


def test_an_override_in_force_is_no_problem() -> None:
    scene = Scene()
    scene.notes = ("OVERRIDE: by alice",)
    scene.watch.look()
    assert (scene.heard, scene.remarks) == ([], [""])


def test_what_would_not_come_in_again_is_told_once_and_taken_back() -> None:
    scene = Scene()
    scene.watch.look()
    scene.notes, scene.revision = ("OVERRIDE EXPIRED: by alice",), 1
    scene.watch.look()
    scene.watch.look()
    assert scene.heard == [("m:1: OVERRIDE EXPIRED: by alice", True)]
    assert scene.remarks[-1] == "m:1: OVERRIDE EXPIRED: by alice"
    scene.notes, scene.revision = (), 2
    scene.watch.look()
    assert scene.heard[-1] == ("m:1: OVERRIDE EXPIRED: by alice", False)
    assert scene.remarks[-1] == ""


def test_nothing_is_asked_while_nothing_changed() -> None:
    scene = Scene()
    scene.watch.look()
    before = scene.asked
    scene.watch.look()
    assert scene.asked == before
    scene.watch.heard(StateChange(ONE, State.LOADING))
    scene.watch.look()
    assert scene.asked == before
    scene.watch.heard(StateChange(ONE, State.AVAILABLE))
    scene.watch.look()
    assert scene.asked > before


def test_only_what_changed_is_asked_about() -> None:
    scene = Scene()
    scene.notes = ("REVOKED at noon",)
    scene.watch.look()
    scene.states[TWO] = State.AVAILABLE
    before = scene.asked
    scene.watch.heard(StateChange(TWO, State.AVAILABLE))
    scene.watch.look()
    assert scene.asked == before + 1
    assert scene.remarks[-1] == "m:1: REVOKED at noon; m:2: REVOKED at once"


def test_a_version_that_has_gone_is_no_problem_any_more() -> None:
    scene = Scene()
    scene.notes = ("REVOKED at noon",)
    scene.watch.look()
    scene.states[ONE] = State.END
    scene.watch.heard(StateChange(ONE, State.END))
    scene.watch.look()
    assert [present for _, present in scene.heard] == [True, False]


def test_overrides_in_force_are_told_when_they_change() -> None:
    scene = Scene()
    scene.watch.look()
    scene.gates, scene.revision = ("quality", "skew"), 1
    scene.watch.look()
    scene.watch.heard(StateChange(TWO, State.END))
    scene.watch.look()
    assert scene.overrides == [{ONE: ("quality", "skew")}]
    scene.states[ONE] = State.END
    scene.watch.heard(StateChange(ONE, State.END))
    scene.watch.look()
    assert scene.overrides == [{ONE: ("quality", "skew")}, {}]
