"""How much is measured: little while something is being changed, all of it for the record."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of seeds: of undrifted windows of flights, of each kind of stream, and of draws per planted fault."""

    undrifted: int = 20
    streams: int = 20
    faults: int = 1
    pairs: int = 5


SMALL = Sizes()
FULL = Sizes(undrifted=200, streams=200, faults=6, pairs=40)
