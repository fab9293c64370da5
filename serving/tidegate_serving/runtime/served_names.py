"""Which servables an engine is meant to serve: those that something is wanted of, and those that its config names.

Readiness asks; the manager and the file system source know.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate_serving.lifecycle.manager import AspiredVersionsManager
from tidegate_serving.runtime.log_keeper import NAME as INFERENCE_LOG
from tidegate_serving.sources.file_system.source import FileSystemSource
from tidegate_serving.sources.problems import SourceProblems


@dataclass(frozen=True, slots=True)
class ServedNames:
    """A servable that the config names counts even while nothing can be wanted of it."""

    manager: AspiredVersionsManager
    files: FileSystemSource
    problems: SourceProblems

    def wanted_names(self) -> frozenset[str]:
        """All of them."""
        return self.manager.wanted_names() | self.files.configured()

    def is_wanted(self, name: str) -> bool:
        """Whether one of them is."""
        return self.manager.is_wanted(name) or self.files.is_configured(name)

    def blind(self) -> str:
        """Why nothing at all is wanted, where a source cannot be read; else empty."""
        said = [one.error.message for one in self.problems.of_sources() if one.source != INFERENCE_LOG]
        return f"nothing is served: {'; '.join(said)}" if said and not self.wanted_names() else ""

    def why(self, name: str) -> str:
        """Why nothing is wanted of one that the config names."""
        problem = self.problems.of(name)
        return problem.error.message if problem is not None else f"no version of {name} was seen yet"
