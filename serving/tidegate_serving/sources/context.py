"""What a source works with, handed to it when it is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tidegate_serving.admission import Admission
from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.sources.owners import Claims, Owners
from tidegate_serving.sources.problems import Reports, SourceProblems
from tidegate_serving.sources.target import Target


@dataclass(frozen=True, slots=True)
class SourceContext:
    """The parts of the engine that a source calls.

    target: gets the aspired versions.
    admission: says whether a version may serve.
    owners: where the source claims servable names.
    problems: where it reports what stands in its way.
    state_directory: where it may keep what it has to remember; None where the engine keeps nothing.
    """

    target: Target[VersionReference]
    admission: Admission
    owners: Claims = field(default_factory=Owners)
    problems: Reports = field(default_factory=SourceProblems)
    state_directory: Path | None = None
