"""mosec serving one of the bench's models; run by the Python of mosec's own environment.

It takes and gives what TensorFlow Serving's REST does, so that every server is sent the same bytes.
"""

from typing import Any

import numpy as np
import orjson
from mosec import Server, Worker
from tests.bench.serving.computing import MOST_ROWS, compute


class Model(Worker):  # type: ignore[misc]
    """One process; a batch is as many requests as wait."""

    def deserialize(self, data: bytes) -> Any:
        return np.array(orjson.loads(data)["instances"], np.float32)

    def forward(self, data: Any) -> Any:
        if MOST_ROWS == 1:
            return compute(data)
        return np.split(compute(np.concatenate(data)), len(data))

    def serialize(self, data: Any) -> bytes:
        return bytes(orjson.dumps({"predictions": data}, option=orjson.OPT_SERIALIZE_NUMPY))


if __name__ == "__main__":
    server = Server()
    server.append_worker(Model, num=1, max_batch_size=MOST_ROWS, max_wait_time=1 if MOST_ROWS > 1 else 0)
    server.run()
