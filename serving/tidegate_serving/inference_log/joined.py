"""Where the logs of several engines that serve the same lie together."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tidegate_serving.contract.errors import FailedPrecondition
from tidegate_serving.inference_log.reader import is_group_log


def joined_log(paths: Collection[str], *, some_away: bool = False) -> Path | None:
    """The folder that holds these engines' logs: their own where it is one for all, else the one above. None where they
    keep none.

    FailedPrecondition where some keep none, or they lie in different folders.
    """
    roots = {Path(path) for path in paths if path}
    if not roots:
        return None
    if "" in paths:
        raise FailedPrecondition("some engines of the group keep no inference log: give each of them a log_path")
    above = {root.parent for root in roots}
    if len(roots) == 1 and not (some_away and is_group_log(next(iter(above)))):
        return next(iter(roots))
    if len(above) > 1:
        raise FailedPrecondition(
            f"the engines' logs lie in {', '.join(map(str, sorted(roots)))}, which is not one folder: give each engine "
            "a log_path of its own below one folder that all share, such as /log/NAME"
        )
    return next(iter(above))
