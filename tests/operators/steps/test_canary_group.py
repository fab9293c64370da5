"""Canaries over two real engines: each divides or copies, the evidence is of all their logs, and one may be lost."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.release.world import BETTER, NONSENSE, World, make_world, traffic

from tidegate_operators.steps import CanaryResult, CanaryRule, CanaryTurn, canary, canary_turn, promote, push
from tidegate_operators.steps.serving_now import find_baseline, find_log
from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import FailedPrecondition, Unavailable
from tidegate_serving.contract.repository import report_directory
from tidegate_serving.control_client import ControlClient
from tidegate_serving.inference_log.reader import connect
from tidegate_validation.canary.rule import CanaryMode

SHADOW = CanaryRule(pairs=30, within_seconds=60.0, max_slow_share=0.9, max_slowdown=9.0, slowdown_grace_us=50_000.0)
TRAFFIC = CanaryRule(
    mode=CanaryMode.TRAFFIC,
    shares=(0.2, 0.6, 1.0),
    pairs=30,
    step_rows=20,
    step_seconds=0.0,
    within_seconds=40.0,
    max_error_share=0.05,
    max_slow_share=0.9,
    max_slowdown=9.0,
    slowdown_grace_us=50_000.0,
)


@dataclass(frozen=True)
class Group:
    """Two engines over one root, each with a log of its own below one folder."""

    world: World
    engines: tuple[EngineProcess, EngineProcess]

    @property
    def control(self) -> str:
        return ",".join(self.addresses)

    @property
    def addresses(self) -> tuple[str, str]:
        first, second = (engine.addresses["control"] for engine in self.engines)
        return first, second

    @property
    def log(self) -> Path:
        return self.world.root / "log"

    def candidate(self, name: str, source: str = BETTER) -> Path:
        push(directory=self.world.admitted(1, name=name), control=self.control)
        promote(control=self.control, servable=name, version=1)
        second = self.world.admitted(2, source, name=name)
        push(directory=second, control=self.control)
        return second

    def splits(self, name: str) -> list[str]:
        return [share for one in self.engines for share in shares(one, name)]

    def live(self, name: str) -> list[list[int]]:
        found = []
        for address in self.addresses:
            with ControlClient(address) as client:
                found.append(sorted(client.desired(name).numbers))
        return found

    def logged(self, name: str, version: int) -> dict[str, int]:
        """Rows of a version by engine."""
        counts = {}
        for engine in ("a", "b"):
            with connect(self.log / engine) as log:
                query = f"SELECT count(*) FROM log WHERE model = '{name}' AND version = {version}"
                counts[engine] = log.execute(query).fetchone()[0]
        return counts

    @contextmanager
    def traffic(self, name: str) -> Iterator[list[list[int]]]:
        with ExitStack() as stack:
            yield [stack.enter_context(traffic(engine.addresses["grpc"], name)) for engine in self.engines]


def shares(engine: EngineProcess, name: str) -> list[str]:
    """How it divides the traffic of a model, as text; nothing where it does not."""
    with engine.control() as client:
        status = client.status(name).servable(name)
    overrides = () if status is None else status.overrides
    return [one.text.rpartition(": ")[2] for one in overrides if one.action == "split"]


def engine(world: World, which: str, control: str = "127.0.0.1:0") -> EngineProcess:
    return EngineProcess(
        world.root / which,
        roots=[world.repository],
        trusted_keys=[world.public_key],
        state_directory=world.root / which / "state",
        log_path=world.root / "log" / which,
        control_address=control,
    )


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    world = make_world(tmp_path)
    with engine(world, "a") as first, engine(world, "b") as second:
        yield Group(world, (first, second))


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"g{zlib.crc32(request.node.name.encode()):08x}"


def test_copies_of_all_engines_are_evidence(group: Group, name: str) -> None:
    group.candidate(name)
    with group.traffic(name):
        result = canary(control=group.control, servable=name, version=2, rule=SHADOW)
    assert result.outcome is Outcome.PASS, result.sentence
    by_engine = group.logged(name, 2)
    assert min(by_engine.values()) > 0
    assert max(by_engine.values()) < result.numbers.shadowed <= sum(by_engine.values())
    for address in group.addresses:
        with ControlClient(address) as client:
            assert client.desired(name).shadow is None


def test_every_engine_divides_its_traffic_and_steps_back(group: Group, name: str) -> None:
    group.candidate(name)
    with group.traffic(name) as versions:
        result = canary(control=group.control, servable=name, version=2, rule=TRAFFIC)
        assert result.outcome is Outcome.PASS, result.sentence
        assert group.splits(name) == ["0 to 1, 1 to 2"] * 2
        passed = [len(one) for one in versions]
        eventually(lambda: all(len(one) > before + 50 for one, before in zip(versions, passed, strict=True)))
        promote(control=group.control, servable=name, version=2)
    assert group.splits(name) == []
    assert max(group.logged(name, 2).values()) < sum(group.logged(name, 2).values())
    worse = group.world.admitted(3, NONSENSE, name=name)
    push(directory=worse, control=group.control)
    with group.traffic(name):
        refused = canary(control=group.control, servable=name, version=3, rule=replace(TRAFFIC, max_error_share=0.01))
    assert refused.outcome is Outcome.FAIL, refused.sentence
    assert (group.splits(name), group.live(name)) == ([], [[2], [2]])


class Observed:
    """A canary in a thread of its own, until it has begun."""

    def __init__(self, group: Group, name: str, rule: CanaryRule) -> None:
        self._pool = ThreadPoolExecutor(1)
        self.result: Future[CanaryResult] = self._pool.submit(
            canary, control=group.control, servable=name, version=2, rule=rule
        )
        eventually(lambda: self.result.done() or len(group.splits(name)) == 2)
        assert not self.result.done()


def test_a_lost_engine_is_waited_for_and_goes_on_with_the_share(
    group: Group, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    group.candidate(name)
    observed = Observed(group, name, replace(TRAFFIC, step_rows=60))
    first, second = group.engines
    with traffic(second.addresses["grpc"], name):
        eventually(lambda: group.logged(name, 2)["b"] > 20)
    second.stop()
    eventually(lambda: "does not answer, the canary waits for it" in caplog.text)
    share = shares(first, name)
    with traffic(first.addresses["grpc"], name) as versions:
        eventually(lambda: len(versions) > 500, seconds=120)
        assert not observed.result.done(), "nothing passes while an engine is away"
        assert shares(first, name) == share, "and no share grows"
        with (
            engine(group.world, "b", control=second.addresses["control"]) as back,
            traffic(back.addresses["grpc"], name),
        ):
            result = observed.result.result(60)
            assert result.outcome is Outcome.PASS, result.sentence
            assert [shares(one, name) for one in (first, back)] == [["0 to 1, 1 to 2"]] * 2


def test_an_engine_that_comes_back_with_nothing_is_made_as_the_others(group: Group, name: str) -> None:
    group.candidate(name)
    observed = Observed(group, name, replace(TRAFFIC, step_rows=10**9, within_seconds=20.0))
    second = group.engines[1]
    second.stop()
    with engine(group.world, "c", control=second.addresses["control"]) as back:
        eventually(lambda: shares(back, name) == ["0.8 to 1, 0.2 to 2"])
        with back.control() as client:
            assert sorted(client.desired(name).numbers) == [1, 2]
        assert observed.result.result(60).outcome is Outcome.INCONCLUSIVE


def test_an_engine_that_stays_away_is_named_with_what_its_log_has(group: Group, name: str) -> None:
    candidate = group.candidate(name)
    first, second = group.engines
    turn = CanaryTurn("run 1", 0.0)
    rule = replace(TRAFFIC, within_seconds=20.0)
    assert canary_turn(directory=candidate, control=group.control, turn=turn, rule=rule) is None
    with traffic(second.addresses["grpc"], name):
        eventually(lambda: group.logged(name, 2)["b"] > 0)
    second.stop()
    late = replace(rule, within_seconds=0.01)
    found = canary_turn(directory=candidate, control=group.control, turn=turn, rule=late)
    assert found is not None
    assert found.outcome is Outcome.INCONCLUSIVE
    assert f"But {second.addresses['control']} does not answer since " in found.sentence
    assert "is missing): bring it back, or take it out of the group." in found.sentence
    assert found.numbers.answered > 0, "what the lost engine logged counts"
    assert found.sentence in (report_directory(candidate) / "canary.json").read_text()
    with first.control() as client:
        assert sorted(client.desired(name).numbers) == [1]
    push(directory=candidate, control=group.addresses[0])
    with pytest.raises(
        Unavailable, match=f"has not begun, because 1 of 2 engines failed: {second.addresses['control']}"
    ):
        canary(control=group.control, servable=name, version=2, rule=rule)
    assert find_log(control=group.control) == group.log
    third = group.world.admitted(3, name=name)
    assert find_baseline(control=group.control, directory=third) == candidate.with_name("1")


def test_engines_that_serve_different_versions_are_named(group: Group, name: str) -> None:
    group.candidate(name)
    push(directory=group.world.admitted(3, name=name), control=group.control)
    promote(control=group.addresses[1], servable=name, version=3)
    push(directory=group.world.repository / name / "2", control=group.addresses[1])
    first, second = group.addresses
    with pytest.raises(FailedPrecondition, match=f"{first} serves 1, {second} serves 3: bring them together"):
        canary(control=group.control, servable=name, version=2, rule=SHADOW)
