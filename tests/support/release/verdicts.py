"""What must be equal between two verdicts on the same version, whoever asked for them: all but what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tidegate_serving.admission import claimed_verdict
from tidegate_serving.contract.repository import verdict_path

_TIMES = ("issued_at", "expires_at")
_MEASURED = ("load", "latency", "idle", "unload", "threads", "memory")
"""Checks whose numbers and sentences are of measured times, of what was done within a time, or of pages of memory."""


def comparable(directory: Path, root: Path) -> dict[str, Any]:
    """The document of a version's verdict without times; paths below `root` as if it were the same everywhere.

    Of a sandbox only whether it ran as root: the rest is what the machine could spare at that moment.
    """
    document = claimed_verdict(verdict_path(directory)).to_dict()
    for name in _TIMES:
        del document[name]
    for gate in document["gates"]:
        del gate["seconds"]
        for finding in gate["findings"]:
            if finding["check"] == "sandbox":
                finding.update(number=None, sentence="as root" if "as root" in finding["sentence"] else "")
            if finding["check"] in _MEASURED:
                finding.update(number=None, interval=None, sentence="")
    found: dict[str, Any] = json.loads(json.dumps(document).replace(str(root), "ROOT"))
    return found


def differences(left: Any, right: Any, where: str = "") -> list[str]:
    """What differs between two documents, each with its place; empty where they are equal."""
    if isinstance(left, dict) and isinstance(right, dict):
        keys = sorted(left.keys() | right.keys())
        return [one for key in keys for one in differences(left.get(key), right.get(key), f"{where}/{key}")]
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        pairs = enumerate(zip(left, right, strict=True))
        return [one for place, pair in pairs for one in differences(*pair, f"{where}/{place}")]
    return [] if left == right else [f"{where}: {left!r} is not {right!r}"]
