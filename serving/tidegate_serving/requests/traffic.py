"""What an operator may wish for a model's traffic beyond labels and shadow: how it is split over several versions.

Config, control port and embedding programs make these values; the endpoint takes them and settles them with the versions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tidegate_serving.contract.errors import InvalidInput

_KEY = re.compile(r"[A-Za-z0-9_.-]+\Z")


@dataclass(frozen=True, slots=True)
class Split:
    """How requests that name neither version nor label are spread over versions.

    `shares` by version sum to 1. `key` is the gRPC metadata key or REST header whose value's hash decides, so that one
    user always gets the same version; a request without it, and every request where `key` is empty, goes by the hash
    of its request id. The part of a version that does not serve goes where it would go without a split.

    Raises InvalidInput for shares or a key that cannot be.
    """

    shares: Mapping[int, float]
    key: str = ""

    def __post_init__(self) -> None:
        for version, share in self.shares.items():
            if version < 0 or not 0 <= share <= 1:
                raise InvalidInput(f"a split gives version {version} a share of {share}: use shares from 0 to 1")
        total = math.fsum(self.shares.values())
        if abs(total - 1) > 1e-6:
            raise InvalidInput(f"a split's shares {dict(self.shares)} sum to {total:g}: they must sum to 1")
        if self.key and not _KEY.match(self.key):
            raise InvalidInput(f"a split's key {self.key!r} cannot be a metadata key or header: use one like x-user-id")
