"""The `"format"` tag that every written document carries, and the one place that decides what a reader accepts.

Writers put `FORMAT` into what they write; readers pass what they found to `check_format` before anything else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from tidegate_serving.contract.errors import Unsupported

MALFORMED = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""What Python raises where a document is read that is no document, or holds other values than it should: keys that are
missing, values of other types, numbers without end, nesting without end."""

_TAG = re.compile(r"tidegate\.([a-z-]+)/([0-9]{1,9})(?:\.([0-9]{1,9}))?\Z")


def check_format(document: Any, *, kind: str, version: str, where: str) -> None:
    """Raises Unsupported unless `document` is an object of this kind and major version, its minor at most one away.

    `version` is what this build writes, such as `1` (minor 0) or `1.2`; `where` names the document for the message.
    """
    found = document.get("format") if isinstance(document, Mapping) else None
    match = _TAG.match(found) if isinstance(found, str) else None
    if match is None or match[1] != kind:
        raise Unsupported(f"{where} is no tidegate.{kind} document (its format is {found!r}): check the path")
    major, minor = _parts(version)
    if int(match[2]) != major or abs(int(match[3] or 0) - minor) > 1:
        raise Unsupported(
            f"{where} has format {found}, this build reads tidegate.{kind}/{version}: "
            "use the Tidegate version that wrote it, or write it again with this one"
        )


def finite(value: Any) -> float:
    """A number of 0 or more out of a document, in which Python reads NaN and infinity too. ValueError for others."""
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{value!r} is no number of 0 or more")
    return number


def _parts(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor or 0)
