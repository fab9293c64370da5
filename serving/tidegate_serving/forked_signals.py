"""How a process takes a signal is not how the processes take it that its models fork: a pool ends its own by SIGTERM,
and waits for ever for one that takes no notice, or tells its parent instead of ending."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable


def own_signals(numbers: Iterable[signal.Signals], in_child: Callable[[], None]) -> None:
    """Has every process that is forked from now on call `in_child` on its only thread before one of these signals
    reaches it: those that arrive between the fork and that are kept until then. For the rest of this process's life."""
    held, kept = frozenset(numbers), threading.local()

    def before() -> None:
        kept.mask = signal.pthread_sigmask(signal.SIG_BLOCK, held)

    def after() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, kept.mask)

    def after_in_child() -> None:
        in_child()
        after()

    os.register_at_fork(before=before, after_in_parent=after, after_in_child=after_in_child)
