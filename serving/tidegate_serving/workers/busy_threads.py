"""Threads that compute in a worker's process: very many compete with others as one for each processor.

In a container or a service, threads of the engine and of its workers share the processors one by one, in whichever
process they are: a model that computes in two hundred of them would leave the engine a two-hundredth.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Sequence

from tidegate_serving.workers.process_files import running_threads, text_of, thread_count, threads

_MOST_EACH = 4
_SAMPLE = 32
"""So many threads are looked at for all of them: beside hundreds that compute, a look must not take long."""
_STEP = 1.25
"""By so much a thread weighs less with each step of `nice` (Linux's kernel/sched/core.c, `sched_prio_to_weight`)."""
_LEAST, _IDLE = 19, 26
"""The highest `nice`, and the one that would weigh as little as a thread of SCHED_IDLE does."""
_STATE, _NICE, _POLICY = 0, 16, 38  # fields of `stat` behind the name


class BusyThreads:
    """Those of one worker's process and of the processes that it started, beside threads of this process."""

    def __init__(self) -> None:
        self.seem_many = False
        """Whether they weighed too much at the last look, so that the next one should come soon."""
        self._weighed_down = False

    def look(self, processes: Callable[[], Sequence[int]], processors: int) -> int:
        """About how many want a processor, where these weighed as more than four for each at two looks in a row; else
        0. All threads of the processes weigh as one for each from then on, as more start, too. Only where so many run
        is it asked which processes there are. OSError where that cannot be told."""
        most = processors if self._weighed_down else _MOST_EACH * processors
        many_before, self.seem_many = self.seem_many, False
        if _few_run(most) or sum(map(thread_count, pids := processes())) <= most:
            return 0
        tasks = [(pid, thread) for pid in pids for thread in threads(pid)]
        looked_at = tasks[:: len(tasks) // _SAMPLE + 1]
        busy = [nice for pid, thread in looked_at if (nice := _niceness(pid, thread)) is not None]
        own = os.getpriority(os.PRIO_PROCESS, os.getpid())
        weight = sum(_STEP ** (own - nice) for nice in busy) * len(tasks) / max(1, len(looked_at))
        self.seem_many = weight > most and not many_before
        if not many_before or weight <= most or min(busy) >= _IDLE:
            return 0
        nice = min(busy) + math.ceil(math.log(weight / processors, _STEP))
        for _, thread in tasks:
            with contextlib.suppress(OSError):  # it has ended meanwhile, or weighs less already
                _weigh(int(thread), nice)
        self._weighed_down = True
        return len(busy) * len(tasks) // len(looked_at)


def _few_run(most: int) -> bool:
    """Whether no more than these run on the whole machine, which is told in one step."""
    running = running_threads()
    return running is not None and running <= most


def _weigh(thread: int, nice: int) -> None:
    """Has a thread weigh as with this `nice`, which may be higher than the system takes."""
    os.setpriority(os.PRIO_PROCESS, thread, min(nice, _LEAST))
    if nice > _LEAST:
        os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))


def _niceness(pid: int, thread: str) -> int | None:
    """How nice a thread is that runs or waits to run; None of one that does not."""
    try:
        fields = text_of(pid, f"task/{thread}/stat").rpartition(")")[2].split()
    except OSError:  # it has ended meanwhile
        return None
    if fields[_STATE] != "R":
        return None
    return _IDLE if int(fields[_POLICY]) == os.SCHED_IDLE else int(fields[_NICE])
