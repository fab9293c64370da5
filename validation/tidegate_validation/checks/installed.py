"""Which checks the installed packages offer, by entry points.

The policy asks for the names when it reads a file, the check gate for the function when it runs one.

    [project.entry-points."tidegate.checks"]
    fairness = "our_checks.fairness:check"
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata

from tidegate_serving.contract.errors import InvalidInput

GROUP = "tidegate.checks"


def installed_checks() -> Mapping[str, str]:
    """`module:function` by name of the check. InvalidInput where two packages offer one name, which names neither."""
    found: dict[str, str] = {}
    for entry in metadata.entry_points(group=GROUP):
        if found.get(entry.name, entry.value) != entry.value:
            raise InvalidInput(
                f"two installed packages offer a check {entry.name!r}, {found[entry.name]} and {entry.value}: "
                "uninstall one, or give it another name"
            )
        found[entry.name] = entry.value
    return found
