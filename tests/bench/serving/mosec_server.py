"""mosec serving one of the bench's models; run by the Python of mosec's own environment.

The environment says what it serves: CALL computes of an array `x` of rows, ESTIMATOR is a file or empty. It takes and
gives what TensorFlow Serving's REST does, so that every server is sent the same bytes.
"""

import os
from typing import Any

import joblib
import numpy as np
import orjson
from mosec import Server, Worker

PATH = os.environ["ESTIMATOR"]
ESTIMATOR = joblib.load(PATH) if PATH else None
COMPUTE = eval(f"lambda x: {os.environ['CALL']}", {"np": np, "ESTIMATOR": ESTIMATOR})
MOST_ROWS = int(os.environ["MOST_ROWS"])


class Model(Worker):  # type: ignore[misc]
    """One process; a batch is as many requests as wait."""

    def deserialize(self, data: bytes) -> Any:
        return np.array(orjson.loads(data)["instances"], np.float32)

    def forward(self, data: Any) -> Any:
        if MOST_ROWS == 1:
            return COMPUTE(data)
        return np.split(COMPUTE(np.concatenate(data)), len(data))

    def serialize(self, data: Any) -> bytes:
        return bytes(orjson.dumps({"predictions": data}, option=orjson.OPT_SERIALIZE_NUMPY))


if __name__ == "__main__":
    server = Server()
    server.append_worker(Model, num=1, max_batch_size=MOST_ROWS, max_wait_time=1 if MOST_ROWS > 1 else 0)
    server.run()
