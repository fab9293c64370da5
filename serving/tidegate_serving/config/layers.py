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
    path: Path | None,
    env: Mapping[str, str],
    overrides: Mapping[str, Any],
    known: Collection[str],
    in_file: Mapping[str, str],
) -> tuple[dict[str, Any], dict[str, str]]:
    """Values by key, and where each came from by dotted key (`models.flights.labels`). Overrides of None are none.

    A variable may have a `known` key; those of `in_file` are in the file alone, in a table that is named with each.
    Raises NotFound for a missing file, InvalidInput for one that is not TOML, a misspelt variable, or one of `in_file`.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    layers: tuple[tuple[str, Mapping[str, Any]], ...] = (
        (str(path), {} if path is None else read_toml(path, "config file")),
        (VARIABLE, _from_environment(env, known, in_file)),
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


def _from_environment(env: Mapping[str, str], known: Collection[str], in_file: Mapping[str, str]) -> dict[str, str]:
    """Known keys; a variable that looks like a misspelt one, or whose key is in a table, is refused, others belong to
    other programs."""
    found: dict[str, str] = {}
    for variable, value in env.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        key = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        if key in known:
            found[key] = value
        elif key in in_file:
            raise InvalidInput(
                f"variable {variable} cannot be read: unset it, and write the value into table [{in_file[key]}] of the "
                "config file (or give the model server's flag)"
            )
        elif key.upper() not in VARIABLES and (near := nearest(key, known, cutoff=0.8)):
            raise InvalidInput(f"variable {variable} is unknown: did you mean {ENVIRONMENT_PREFIX}{near.upper()}?")
    return found
