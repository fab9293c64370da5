"""Which of the versions that lie in a repository a servable wants: `latest:N`, `all` or `specific:1,4`.

The file system source parses one per servable and asks it at each poll.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidegate_serving.contract.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """`latest` counts the newest usable versions, 0 for no limit; `specific` names versions instead."""

    latest: int = 1
    specific: frozenset[int] = frozenset()

    def choose(self, present: Iterable[int], usable: Callable[[int], bool]) -> list[int]:
        """Wanted versions, newest first: what the policy takes of the usable ones, and unusable ones that are newer.

        The unusable ones are wanted too, so that their errors can be seen; they never displace a usable one.
        """
        ordered = sorted(present, reverse=True)
        if self.specific:
            return [version for version in ordered if version in self.specific]
        chosen: list[int] = []
        taken = 0
        for version in ordered:
            if self.latest and taken == self.latest:
                break
            chosen.append(version)
            taken += usable(version)
        return chosen


def parse_version_policy(text: str) -> VersionPolicy:
    """The policy that a config's text means. InvalidInput for anything else."""
    kind, _, rest = text.partition(":")
    if text == "all":
        return VersionPolicy(latest=0)
    if kind == "latest" and rest.isdigit() and int(rest) > 0:
        return VersionPolicy(latest=int(rest))
    numbers = [part.strip() for part in rest.split(",")]
    if kind == "specific" and all(number.isdigit() for number in numbers):
        return VersionPolicy(specific=frozenset(int(number) for number in numbers))
    raise InvalidInput(f"versions is {text!r}: use latest:N, all, or specific:1,4")
