"""What the operators share: their colour, and how rendered template fields become paths and identities.

Operators call these with strings that Airflow has rendered.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate_serving.contract.servable import ServableId

COLOUR = "#d7ecf2"


def optional_path(value: str | None) -> Path | None:
    """The path, None for an empty string or None."""
    return Path(value) if value else None


def read_id(directory: str) -> ServableId:
    """Name and version of a version directory, from its manifest. NotFound or Tampered, naming the file."""
    from tidegate_serving.contract.manifest import read_manifest

    return read_manifest(Path(directory))[0].id
