"""What the operators share: their colour, and what becomes of template fields once Airflow has rendered them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate_serving.contract.servable import ServableId

COLOUR = "#d7ecf2"
_RENAMED = {"label_column": "label"}  # a task of Airflow's has a label already


def given(operator: object, names: Iterable[str]) -> dict[str, Any]:
    """Those of the operator's arguments that say something, by the names that our own types have for them; a template
    makes an empty text of what is missing.
    """
    values = {_RENAMED.get(name, name): getattr(operator, name) for name in names}
    return {name: value for name, value in values.items() if value not in (None, "")}


def read_id(directory: str) -> ServableId:
    """Name and version of a version directory, from its manifest. NotFound or Tampered, naming the file."""
    from tidegate_serving.contract.manifest import read_manifest

    return read_manifest(Path(directory))[0].id
