"""Reads what a person wrote for a publication as a JSON object: signatures, an example row.

The steps hand in a path and what stands there; the object comes back, or an error that says what to write.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import InvalidInput, NotFound


def read_object(path: Path, what: str, *, missing: str, wanted: str) -> dict[str, Any]:
    """The object in `path`, which is called `what`; `missing` and `wanted` say what to do and to write.

    NotFound where there is no file, InvalidInput for one that is not JSON or holds something else.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NotFound(f"{what} {path} is missing: {missing}") from error
    except ValueError as error:
        raise InvalidInput(f"{what} {path} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise InvalidInput(f"{what} {path} holds no object: {wanted}")
    return document
