"""Says what to raise where the system gives a process no more threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidegate_serving.contract.errors import ResourceExhausted

_NO_THREAD = "can't start new thread"


@contextmanager
def starting_threads(of: str) -> Iterator[None]:
    """Within it threads are started. ResourceExhausted where one cannot be, which is a RuntimeError in Python that only
    its words tell from others."""
    try:
        yield
    except RuntimeError as error:
        if _NO_THREAD not in str(error):
            raise
        raise ResourceExhausted(
            f"{of} cannot start its threads ({error}): raise the limit of processes of its user (ulimit -u) or "
            "container, and start it again"
        ) from error
