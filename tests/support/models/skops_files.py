"""Estimators as skops files. The library imports all of scikit-learn: only who writes such a file waits for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def skops_bytes(estimator: Any) -> bytes:
    """A skops file."""
    from skops import io

    return bytes(io.dumps(estimator))


def write_skops(estimator: Any, path: Path, **options: Any) -> None:
    """Writes one; `options` are those of `skops.io.dump`."""
    from skops import io

    io.dump(estimator, path, **options)
