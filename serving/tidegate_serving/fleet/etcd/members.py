"""Which of several members a client asks: the first one, in their order, that a connection comes to without much ado.

A member that hangs accepts connections and says nothing on them, so that only a call's deadline would end the wait
for it.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Sequence

import grpc

from tidegate_serving.channels import open_channel
from tidegate_serving.connection import EngineConnection

HEAD_START = 0.3
"""Seconds that a member has before the next one is tried beside it."""


def first_ready(connections: Sequence[EngineConnection], seconds: float) -> tuple[int, grpc.Channel]:
    """The index of the first connection that is ready, and its channel; the first one where there is no other.

    Where a connection to each of them fails, it is the first: a call over it says why. Raises TimeoutError where none
    is ready within `seconds`, and what `open_channel` raises.
    """
    if len(connections) == 1:
        return 0, open_channel(connections[0])
    until, members = time.monotonic() + seconds, list[_Member]()
    told, failed = queue.SimpleQueue[tuple[_Member, bool]](), set[int]()
    chosen = None
    try:
        while len(failed) < len(connections):
            if len(members) < len(connections):
                members.append(_Member(len(members), connections[len(members)], told))
            ahead = HEAD_START if len(members) < len(connections) else seconds
            try:
                member, ready = told.get(timeout=max(0.0, min(ahead, until - time.monotonic())))
            except queue.Empty:
                if time.monotonic() < until:
                    continue
                raise TimeoutError(f"none was ready within {seconds} s") from None
            if ready:
                chosen = member
                break
            failed.add(member.index)
        chosen = chosen or members[0]
        return chosen.index, chosen.channel
    finally:
        for member in members:
            if member is chosen:
                member.hear_no_more()
            else:
                member.channel.close()


class _Member:
    """One to which a connection is being made; it is told when that is ready, and when it fails."""

    def __init__(self, index: int, connection: EngineConnection, told: queue.SimpleQueue[tuple[_Member, bool]]) -> None:
        self.index = index
        self.channel = open_channel(connection)
        self._told = told
        self.channel.subscribe(self._tell, try_to_connect=True)

    def hear_no_more(self) -> None:
        """Ends what watches the channel."""
        self.channel.unsubscribe(self._tell)

    def _tell(self, state: grpc.ChannelConnectivity) -> None:
        if state in (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE):
            self._told.put((self, state is grpc.ChannelConnectivity.READY))
