"""Where a config's values come from: a TOML file, `TIDEGATE_*` variables, overrides; later ones win.

The result is plain values by key, and for each the place that it came from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tidegate_serving.connection import VARIABLES
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.typed_config import nearest, read_toml

ENVIRONMENT_PREFIX = "TIDEGATE_"
VARIABLE = f"variable {ENVIRONMENT_PREFIX}"
COMMAND_LINE = "command line"


def layered(
    path: Path | None, env: Mapping[str, str], overrides: Mapping[str, Any], known: Collection[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Values by key, and where each came from by dotted key (`models.flights.labels`). Overrides of None are none.

    Raises NotFound for a missing file, InvalidInput for one that is not TOML or a misspelt variable.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    layers: tuple[tuple[str, Mapping[str, Any]], ...] = (
        (str(path), {} if path is None else read_toml(path, "config file")),
        (VARIABLE, _from_environment(env, known)),
        (COMMAND_LINE, {key: value for key, value in overrides.items() if value is not None}),
    )
    for place, found in layers:
        for key, value in found.items():
            values[key] = value
            origins = {leaf: origin for leaf, origin in origins.items() if not _within(leaf, key)}
            said = f"{place}{key.upper()}" if place.endswith(ENVIRONMENT_PREFIX) else place
            origins.update(dict.fromkeys(_leaves(key, value), said))
    return values, origins


def _within(dotted: str, key: str) -> bool:
    return dotted == key or dotted.startswith(f"{key}.")


def _leaves(key: str, value: Any) -> list[str]:
    if not isinstance(value, Mapping):
        return [key]
    return [leaf for name, item in value.items() for leaf in _leaves(f"{key}.{name}", item)]


def _from_environment(env: Mapping[str, str], known: Collection[str]) -> dict[str, str]:
    """Known keys; a variable that looks like a misspelt one is refused, others belong to other programs."""
    found: dict[str, str] = {}
    for variable, value in env.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        key = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        if key in known:
            found[key] = value
        elif key.upper() not in VARIABLES and (near := nearest(key, known, cutoff=0.8)):
            raise InvalidInput(f"variable {variable} is unknown: did you mean {ENVIRONMENT_PREFIX}{near.upper()}?")
    return found
