"""Random histories of an engine's lifecycle: drawn from a seed, told as plain steps, and so told again or cut short.

Each step is its name and plain values, which mean something in any state, so that a history stays one whatever is left
out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.support.histories.checks import NAMES
from tests.support.histories.world import PUSHED, SINGLE, VERSIONS, WATCHED, Panic, Told, World, pushed_directory
from tests.support.lifecycle.plane_model import STABLE, ModelPicture

from tidegate_serving.contract.desired_state import DesiredState, Shadow, VersionReference
from tidegate_serving.contract.errors import TidegateError, Unavailable
from tidegate_serving.contract.servable import State
from tidegate_serving.control.deciding import Requester

Step = tuple[Any, ...]
STEERED = (PUSHED, WATCHED)
LABELS = (STABLE, "canary")
ERRORS = (Unavailable, SystemExit, Panic)


def draw(seed: int, length: int) -> list[Step]:
    """A history."""
    chance = random.Random(seed)
    kinds = list(_DRAWN)
    weights = [_DRAWN[kind][0] for kind in kinds]
    return [(kind, *_DRAWN[kind][1](chance)) for kind in chance.choices(kinds, weights, k=length)]


def _versions(chance: random.Random) -> tuple[int, ...]:
    return tuple(sorted(chance.sample(VERSIONS, chance.choices((0, 1, 2, 3), (2, 6, 5, 1))[0])))


def _push(chance: random.Random) -> Step:
    versions = _versions(chance)
    labels = {label: chance.choice(versions) for label in LABELS if versions and chance.random() < 0.5}
    shadow = chance.choice(versions) if versions and chance.random() < 0.3 else None
    return versions, labels, shadow, chance.choice("aaab"), chance.random() < 0.2


def _tell(chance: random.Random) -> Step:
    told = [(v, chance.choice((0, 0, 1)), chance.choice(("", "", "", "", "half of it"))) for v in _versions(chance)]
    return (tuple(told),)


def _single(chance: random.Random) -> Step:
    return (chance.choice((0, *VERSIONS)), chance.choice((0, 0, 1)))


def _config_labels(chance: random.Random) -> Step:
    return ({label: chance.choice(VERSIONS) for label in LABELS if chance.random() < 0.4},)


def _reload(chance: random.Random) -> Step:
    return *_config_labels(chance), *_tell(chance), chance.random() < 0.4


def _one(chance: random.Random) -> Step:
    return chance.choice(STEERED), chance.choice(VERSIONS)


def _name(chance: random.Random) -> Step:
    return (chance.choice(STEERED),)


def _split(chance: random.Random) -> Step:
    return chance.choice(STEERED), tuple(chance.sample(VERSIONS, 2)) if chance.random() < 0.7 else ()


def _temper(chance: random.Random) -> Step:
    values = {
        "size": chance.choice((10, 10, 10, 25)),
        "measured": chance.choice((None, None, 5, 15)),
        "fails": chance.choice((0, 0, 0, 1, 2, 1000)),
        "raises": chance.randrange(len(ERRORS)),
        "stays": chance.random() < 0.15,
    }
    return chance.choice(NAMES), chance.choice(VERSIONS), chance.choice((0, 1)), values


_DRAWN: dict[str, tuple[int, Callable[[random.Random], Step]]] = {
    "step": (40, lambda chance: (chance.randrange(1000),)),
    "tick": (20, lambda chance: ()),
    "run": (22, lambda chance: (chance.choice((3, 8, 8, 30)),)),
    "release": (8, lambda chance: ()),
    "ask": (10, lambda chance: (chance.choice(NAMES), chance.choice((0, 0, *VERSIONS)))),
    "answer": (10, lambda chance: (chance.randrange(1000),)),
    "clock": (6, lambda chance: (chance.choice((0.5, 1.0, 3.0, 9.0)),)),
    "push": (14, _push),
    "tell": (10, _tell),
    "single": (8, _single),
    "labels": (4, _config_labels),
    "reload": (4, _reload),
    "temper": (8, _temper),
    "pin": (3, _one),
    "unpin": (2, _name),
    "freeze": (1, _name),
    "unfreeze": (2, _name),
    "disable": (1, _name),
    "enable": (2, _name),
    "split": (3, _split),
    "block": (2, _one),
    "unblock": (2, _one),
    "rollback": (3, lambda chance: (chance.choice(STEERED), chance.choice((0, 0, 0, *VERSIONS)))),
    "keep": (2, _name),
    "limit": (3, lambda chance: (chance.choice((0, 0, 25, 45)),)),
    "refuse": (1, lambda chance: ()),
    "disk": (1, lambda chance: (chance.random() < 0.4,)),
    "retry": (1, lambda chance: ()),
    "crash": (1, lambda chance: ()),
    "stop": (1, lambda chance: ()),
}


class History:
    """Plays steps in a world, and holds the world to its promises after each."""

    def __init__(self, world: World) -> None:
        self.world = world

    def play(self, steps: Sequence[Step]) -> None:
        """Raises AssertionError at the first step that breaks a promise, with its number."""
        for number, step in enumerate(steps):
            try:
                self.do(step)
            except AssertionError as fault:
                raise AssertionError(f"at step {number}, {step}: {fault}") from fault

    def do(self, step: Step) -> None:
        """One step."""
        life, kind = self.world.life, step[0]
        before = {name: life.reconciler.routing(name) for name in NAMES}
        try:
            getattr(self, f"_{kind}")(*step[1:])
        except TidegateError:
            if kind not in _MAY_BE_REFUSED:
                raise
        life = self.world.life
        life.checks.after_step(before)

    def come_to_rest(self) -> None:
        """Everything that goes on by itself goes on until nothing is left to do."""
        world = self.world
        world.disk_full = False
        for _ in range(5):
            before = {name: world.life.reconciler.routing(name) for name in NAMES}
            world.life.settle()
            world.life.checks.after_step(before)
            world.clock.now += 10
        world.life.checks.at_rest()
        self._check_retries()

    def _check_retries(self) -> None:
        """What is wanted and fails is tried again, nothing else is."""
        life = self.world.life
        before = dict(life.checks.attempts)
        life.settle()
        for name in NAMES:
            wish = life.told.aspired.get(name, {})
            for one in (one for one in life.checks.states if one.name == name):
                tried = life.checks.attempts.get(one, 0) - before.get(one, 0)
                noted = life.monitor.state(one)
                state, code = (noted.state, noted.error_code) if noted is not None else (None, "")
                broken = (
                    one.version in wish and wish[one.version].error is None and not life.checks.able(name, one.version)
                )
                if broken and not tried and state is not State.AVAILABLE and code != "resource_exhausted":
                    raise AssertionError(f"{one} is wanted and not tried again: {noted}")
                if tried and not broken:
                    raise AssertionError(f"{one} is loaded again, for whom? {noted}")

    def restart(self) -> None:
        """What comes up after a restart is what was there before."""
        world = self.world
        pictures = self._pictures()
        complete = all(self._complete(name) for name in NAMES)
        world.crash()
        self.come_to_rest()
        if complete and world.limit == 0 and not world.forgot:
            assert self._pictures() == pictures, f"after the restart {self._pictures()}, before {pictures}"

    def _pictures(self) -> dict[str, ModelPicture]:
        """Where nothing is there, it does not matter why nobody is let in."""
        seen = {name: self.world.life.plane.of(name) for name in NAMES}
        return {name: picture if picture.versions else ModelPicture() for name, picture in seen.items()}

    def _complete(self, name: str) -> bool:
        """Whether all that is wanted is there, as it is wanted now, and nothing else."""
        life = self.world.life
        if life.plane.of(name).labels != life.reconciler.routing(name).labels:
            return False
        there = {loader.id.version: loader.path for loader in life.loaders if loader.loaded and loader.id.name == name}
        wish = life.told.aspired.get(name, {})
        if not all(wanted.error is not None or life.checks.able(name, version) for version, wanted in wish.items()):
            return False
        return there == {version: wanted.payload and wanted.payload.path for version, wanted in wish.items()}

    # Steps

    def _step(self, choice: int) -> None:
        self.world.life.baton.step(choice)

    def _tick(self) -> None:
        self.world.life.manager.tick()

    def _run(self, rounds: int) -> None:
        life = self.world.life
        for _ in range(rounds):
            life.manager.tick()
            life.baton.step(0)
            life.release()

    def _release(self) -> None:
        self.world.life.release()

    def _ask(self, name: str, version: int) -> None:
        plane = self.world.life.plane
        picture = plane.of(name)
        chosen = picture.ordinary if version == 0 else version
        if chosen is not None and chosen in picture.versions and picture.off is None:
            plane.handles[(name, chosen)] += 1

    def _answer(self, choice: int) -> None:
        out = sorted(self.world.life.plane.handles.elements())
        if out:
            self.world.life.plane.handles[out[choice % len(out)]] -= 1

    def _clock(self, seconds: float) -> None:
        self.world.clock.now += seconds

    def _push(
        self, versions: tuple[int, ...], labels: dict[str, int], shadow: int | None, place: str, keep: bool
    ) -> None:
        found = [(version, *pushed_directory(self.world, version, place)) for version in versions]
        pushed = tuple(VersionReference(version, directory, digest) for version, directory, digest in found)
        shadowed = None if shadow is None else Shadow(shadow, 0.5)
        desired = DesiredState(PUSHED, pushed, labels, shadowed, keep, requested_by="ben")
        self.world.life.rpc.set_desired_state(desired)

    def _tell(self, versions: tuple[tuple[int, int, str], ...]) -> None:
        self._watched(WATCHED, Told(versions))

    def _single(self, version: int, revision: int) -> None:
        self._watched(SINGLE, Told(((version, revision, ""),) if version else ()))

    def _watched(self, name: str, told: Told) -> None:
        self.world.told[name] = told
        self.world.life.tell(name, told)

    def _labels(self, labels: dict[str, int]) -> None:
        self.world.labels[WATCHED] = labels
        self.world.life.reconciler.set_labels(WATCHED, labels)

    def _reload(self, labels: dict[str, int], versions: tuple[tuple[int, int, str], ...], moves: bool) -> None:
        with self.world.life.reconciler.reload():
            self._labels(labels)
            if moves:
                self._tell(())
                self._tick()
            self._tell(versions)

    def _temper(self, name: str, version: int, place: int, values: dict[str, Any]) -> None:
        if name == PUSHED:
            directory, _ = pushed_directory(self.world, version, "ab"[place])
        else:
            directory = self.world.repository / f"{name}-{place}" / name / str(version)
        temper = self.world.temper(directory)
        for key, value in values.items():
            setattr(temper, key, ERRORS[value] if key == "raises" else value)

    def _pin(self, name: str, version: int) -> None:
        self.world.life.operations.pin(_requester(name), version)

    def _unpin(self, name: str) -> None:
        self.world.life.operations.unpin(_requester(name))

    def _freeze(self, name: str) -> None:
        self.world.life.operations.freeze(_requester(name))

    def _unfreeze(self, name: str) -> None:
        self.world.life.operations.unfreeze(_requester(name))

    def _disable(self, name: str) -> None:
        self.world.life.operations.disable(_requester(name))

    def _enable(self, name: str) -> None:
        self.world.life.operations.enable(_requester(name))

    def _split(self, name: str, versions: tuple[int, ...]) -> None:
        self.world.life.operations.split(_requester(name), dict.fromkeys(versions, 0.5), "")

    def _block(self, name: str, version: int) -> None:
        self.world.life.operations.block(_requester(name), version)

    def _unblock(self, name: str, version: int) -> None:
        self.world.life.operations.unblock(_requester(name), version)

    def _rollback(self, name: str, version: int) -> None:
        self.world.life.rollback(_requester(name), version or None, None)

    def _keep(self, name: str) -> None:
        self.world.kept ^= {name}
        self.world.life.reconciler.refresh(name)

    def _limit(self, limit: int) -> None:
        self.world.limit = limit
        self.world.life.manager.reconfigure(self.world.options())

    def _refuse(self) -> None:
        self.world.life.plane.refusals += 1

    def _disk(self, full: bool) -> None:
        self.world.disk_full = full
        self.world.forgot |= full

    def _retry(self) -> None:
        self.world.life.manager.retry_failed()

    def _crash(self) -> None:
        self.world.crash()

    def _stop(self) -> None:
        self.world.stop()
        self.world.begin()


_MAY_BE_REFUSED = frozenset(
    {"push", "pin", "unpin", "freeze", "unfreeze", "disable", "enable", "split", "block", "unblock", "rollback"}
)


def _requester(name: str) -> Requester:
    return Requester(name, "anna", "it is late")
