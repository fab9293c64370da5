"""What Kubeflow Pipelines hands to a task, read in one place: numbers arrive as floats, and what is left out as "".

An artifact is anything with a path and metadata: kfp's own objects in a local run, `launcher`'s in a container.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from tidegate_serving.contract.errors import InvalidInput

_EXACT = 2**53


class Artifact(Protocol):
    """An artifact of a task, input or output: its address, where its files lie here, and what is shown of it."""

    uri: str
    path: str
    metadata: dict[str, Any]


class Arguments:
    """The arguments of one task by name: parameters, artifacts, and paths that output parameters are written to."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def given(self, names: Iterable[str]) -> dict[str, Any]:
        """Those that say something."""
        found = {name: self._values.get(name) for name in names}
        return {name: value for name, value in found.items() if value not in (None, "", [], {})}

    def text(self, name: str) -> str:
        """A text that must be there. InvalidInput, naming the parameter."""
        value = self._values.get(name)
        if not isinstance(value, str) or not value:
            raise InvalidInput(f"parameter {name!r} is {value!r}: give it a text")
        return value

    def path(self, name: str) -> Path:
        """A path that must be there."""
        return Path(self.text(name))

    def texts(self, name: str) -> list[str]:
        """A list of texts that must not be empty."""
        value = self._values.get(name)
        if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
            raise InvalidInput(f"parameter {name!r} is {value!r}: give a list of texts")
        return value

    def whole(self, name: str) -> int:
        """A whole number. InvalidInput for a fraction, and for what KFP's numbers cannot hold exactly."""
        value = self._values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
            raise InvalidInput(f"parameter {name!r} is {value!r}: give a whole number")
        if abs(value) > _EXACT:
            raise InvalidInput(
                f"parameter {name!r} is {int(value)}, which Kubeflow Pipelines rounds: give a number up to {_EXACT}"
            )
        return int(value)

    def plain(self, name: str) -> Any:
        """A parameter as it came; None where it was left out."""
        return self._values.get(name)

    def artifact(self, name: str) -> Any:
        """An input or output artifact."""
        return self._values.get(name)

    def write(self, **outputs: Any) -> None:
        """Writes output parameters where KFP collects them: text as it is, everything else as JSON."""
        for name, value in outputs.items():
            path = Path(self._values[name])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
