"""How many files and sockets this process may have open, and how many of them connections may take."""

from __future__ import annotations

import contextlib
import logging
import resource

MOST = 1 << 20
LEAST_RESERVED = 256
RESERVED_SHARE = 4
_log = logging.getLogger(__name__)


def allow_many(connections: int) -> None:
    """Raises the limit as far as this process may by itself, since many systems begin with 1,024 for the sake of old
    programs. Says so where that is still not enough for so many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # the system's own limit may be lower still
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if (most := most_connections(connections)) < connections:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        _log.warning(
            "max_connections is %d, but this process may have %d files open: it takes %d connections; raise the limit "
            "(ulimit -n), or lower max_connections",
            connections,
            limit,
            most,
        )


def most_connections(wanted: int) -> int:
    """As many of the wanted ones as leave enough files for models, workers and logs: a quarter, and 256 at least."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(1, limit - max(LEAST_RESERVED, limit // RESERVED_SHARE)))
