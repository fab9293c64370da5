"""The inference logs of a fleet's nodes, which whoever judges a version reads on the storage that all of them share.

The controller gives out none of their files. It says where they lie, and that there are none yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import FailedPrecondition
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.servable import check_name
from tidegate_serving.inference_log.joined import joined_log

_NEW_SECONDS = 10.0  # whoever looked into the folder just before may not have seen a file that is younger


@dataclass(frozen=True, slots=True)
class FleetLog:
    """`paths` are the nodes' own log folders: empty for none, None of a node that has said nothing yet."""

    paths: Callable[[], list[str | None]]

    def root(self) -> Path | None:
        """The folder of all of them; None where no node keeps a log. FailedPrecondition where some do not, or they lie
        apart."""
        found = self.paths()
        return joined_log([path for path in found if path is not None], some_away=None in found)

    def read(self, request: Any) -> Iterator[Any]:
        """Answers a `ReadLogRequest` with an empty list while nothing of the model is logged. FailedPrecondition where
        there is something, which the caller has to see itself."""
        root = self.root()
        if root is None:
            raise FailedPrecondition(
                "no node of the fleet keeps an inference log: give each a log_path below one folder"
            )
        pattern = f"model={check_name(request.servable)}/version=*/date=*/*.parquet"
        files = (file for form in (pattern, f"*/{pattern}") for file in root.glob(form))
        if any(_is_older(file, time.time() - _NEW_SECONDS) for file in files):
            raise FailedPrecondition(
                f"the logs of the fleet's nodes lie below {root}, which is not to be seen where this is judged: mount "
                "it there at the same path"
            )
        yield message("tidegate.v1.LogPiece")(present=[])


def _is_older(file: Path, moment: float) -> bool:
    """Whether it was written before, in Unix seconds; not of one that retention took away meanwhile."""
    try:
        return file.stat().st_mtime < moment
    except FileNotFoundError:
        return False
