"""What engines logged in a hub's made-up world, and the files of the version that answered."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from tests.support.hub.verdict import FEATURES, Texts
from tests.support.log_blocks import FakeBlock, write_log
from tests.support.models.versions import adding, make_validator, publish

ANSWERED = "7c1e0a52-answered"
"""The id of a request that went well."""
MANY = "7c1e0a52-many-rows"
"""The id of one with many rows, answered by a shadow too, of whose versions no files are known."""
_ROWS = 30
_MOST_ID = 256


def request_ids(*, hostile: bool) -> tuple[str, str]:
    """Those of both requests, as the logs have them."""
    attack = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>{{7*7}}"
    return (attack, (attack * 3)[:_MOST_ID]) if hostile else (ANSWERED, MANY)


def write_receipts(folder: Path, model: str, say: Texts, now: datetime) -> Path:
    """Writes log, repository and keys into a folder; the log's."""
    one, many = request_ids(hostile=say.hostile)
    directory = publish(folder / "models", model, 2, adding(1))
    make_validator(folder / "keys").sign(directory)
    asked = now - timedelta(minutes=20)
    columns = {say.name(name) if place < 2 else name: _values(name, say) for place, name in enumerate(FEATURES)}
    first = {name: values[:1] for name, values in columns.items()}
    score = np.linspace(0.1, 0.9, _ROWS).astype("f4")
    answered = FakeBlock(first, {"score": score[:1]}, model, 2, request_id=[one], received=asked)
    write_log(folder / "log", answered)
    failed = np.full(_ROWS, 3)
    for version, role, status in ((3, 0, failed), (4, 1, None)):
        block = FakeBlock(columns, {"score": score}, model, version, request_id=[many] * _ROWS, received=asked)
        block.role = np.full(_ROWS, role, "u1")
        block.status = block.status if status is None else status
        write_log(folder / "log", block)
    return folder / "log"


def _values(name: str, say: Texts) -> np.ndarray:
    if name in ("carrier", "origin"):
        return np.array([say("a name that is as long as names of airports are", 3000).encode()] * _ROWS, object)
    return np.linspace(0, 1, _ROWS).astype("f4")
