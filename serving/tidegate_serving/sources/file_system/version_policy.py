"""Which of a servable's versions in a repository are to be served: `latest:N`, `all`, `specific:1,4` or `none`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.servable import MAX_VERSION

T = TypeVar("T")
_MOST_DIGITS = len(str(MAX_VERSION))


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """`latest` counts the newest usable versions, 0 for no limit; `specific`, where set, names versions instead."""

    latest: int = 1
    specific: frozenset[int] | None = None

    def choose(self, present: Iterable[int], look: Callable[[int], T | None], usable: Callable[[T], bool]) -> list[T]:
        """The versions to aspire, newest first: usable ones as the policy says, and unusable ones that are newer.

        `look` gives a version, or None for one that does not count yet; it is called only as far down as needed. The
        unusable ones are there so that their errors can be seen; they never displace a usable one.
        """
        chosen: list[T] = []
        taken = 0
        for number in sorted(present, reverse=True):
            if self.specific is not None and number not in self.specific:
                continue
            if self.specific is None and self.latest and taken == self.latest:
                break
            version = look(number)
            if version is not None:
                chosen.append(version)
                taken += usable(version)
        return chosen

    def missing(self, present: Iterable[int]) -> list[int]:
        """Versions that are asked for by number and are not there."""
        return sorted((self.specific or frozenset()) - frozenset(present))


def parse_version_policy(text: str) -> VersionPolicy:
    """The policy that a config's text means. InvalidInput for anything else."""
    kind, _, rest = text.partition(":")
    if text == "all":
        return VersionPolicy(latest=0)
    if text == "none":
        return VersionPolicy(specific=frozenset())
    numbers = [part.strip() for part in rest.split(",")]
    if all(number.isdecimal() and len(number) <= _MOST_DIGITS for number in numbers):
        found = [int(number) for number in numbers]
        if kind == "specific":
            return VersionPolicy(specific=frozenset(found))
        if kind == "latest" and len(found) == 1 and found[0] > 0:
            return VersionPolicy(latest=found[0])
    raise InvalidInput(f"versions is {text!r}: use latest:N, all, specific:1,4, or none")
