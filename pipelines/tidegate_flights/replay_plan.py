"""What one run of the traffic client shall do, as a JSON file: where to send which rows, and what must come back.

The demo writes a plan and starts `replay` with its path; the client reads it here.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tidegate_serving.contract.formats import check_format

VERSION = "1"


@dataclass(frozen=True)
class ReplayPlan:
    """`rows` is a Parquet file in the order of the events, `expected` an .npz with one array per version beside it.

    `rows_per_second` paces all connections together; `loop` starts over at the end; `corrupt` breaks that many
    expected values, from the first row on, so that the comparison can be seen to bite. The result goes to `result`
    as JSON and the latencies in microseconds beside it as .npy.
    """

    model: str
    grpc: str
    rest: str
    rows: str
    expected: str
    result: str
    request_prefix: str
    rows_per_second: float = 450.0
    connections: int = 4
    loop: bool = True
    corrupt: int = 0

    def write(self, path: Path) -> Path:
        """Writes the plan and returns its path."""
        path.write_text(json.dumps({"format": f"tidegate.replay-plan/{VERSION}", **asdict(self)}, indent=1) + "\n")
        return path

    @classmethod
    def read(cls, path: Path) -> ReplayPlan:
        """The plan in a file; Unsupported when it is none."""
        document = json.loads(path.read_text())
        check_format(document, kind="replay-plan", version=VERSION, where=str(path))
        document.pop("format")
        return cls(**document)
