"""What a source works with, handed to it when it is made."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from tidegate_serving.admission import Admission
from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.sources.owners import Claims, Owners
from tidegate_serving.sources.problems import Reports, SourceProblems
from tidegate_serving.sources.target import Target

Needed = Callable[[str], Collection[VersionReference]]


def needs_nothing(name: str) -> Collection[VersionReference]:
    """Where no reconciler decides over a source's head."""
    return ()


@dataclass(frozen=True, slots=True)
class SourceContext:
    """The parts of the engine that a source calls.

    target: gets the aspired versions.
    admission: says whether a version may serve.
    owners: where the source claims servable names.
    problems: where it reports what stands in its way.
    state_directory: where it may keep what it has to remember; None where the engine keeps nothing.
    needed: the versions of a servable that serve, are to, or that an operator's decision names, whether the source
        still wants them or not; their files must stay where they are.
    """

    target: Target[VersionReference]
    admission: Admission
    owners: Claims = field(default_factory=Owners)
    problems: Reports = field(default_factory=SourceProblems)
    state_directory: Path | None = None
    needed: Needed = needs_nothing
