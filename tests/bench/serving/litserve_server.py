"""LitServe serving one of the bench's models; run by the Python of its own environment, with its port as argument.

It takes and gives what TensorFlow Serving's REST does.
"""

import sys
from typing import Any

import litserve
import numpy as np
from tests.bench.serving.computing import MOST_ROWS, compute


class Model(litserve.LitAPI):  # type: ignore[misc]
    """One worker process; a batch is as many requests as wait."""

    def setup(self, device: str) -> None:
        """Nothing: the model is loaded with `computing`."""

    def decode_request(self, request: dict[str, Any]) -> Any:
        return np.array(request["instances"], np.float32)

    def predict(self, x: Any) -> Any:
        if MOST_ROWS == 1:
            return compute(x)
        return np.split(compute(np.concatenate(x)), len(x))

    def batch(self, inputs: Any) -> Any:
        return inputs

    def unbatch(self, output: Any) -> Any:
        return output

    def encode_response(self, output: Any) -> Any:
        return {"predictions": output.tolist()}


if __name__ == "__main__":
    model = Model(max_batch_size=MOST_ROWS, batch_timeout=0.001 if MOST_ROWS > 1 else 0.0)
    server = litserve.LitServer(model, accelerator="cpu", workers_per_device=1, timeout=60)
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False, log_level="error")
