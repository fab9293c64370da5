"""BentoML serving one of the bench's models; run by `bentoml serve` of its own environment.

It takes what TensorFlow Serving's REST does, and answers with the bare list of rows.
"""

import bentoml
import numpy as np
from tests.bench.serving.computing import MOST_ROWS, compute

BATCHING = {"batchable": True, "max_batch_size": MOST_ROWS} if MOST_ROWS > 1 else {}


@bentoml.service(workers=1, traffic={"timeout": 60, "max_concurrency": 1000}, metrics={"enabled": False})
class Model:
    """One process; a batch is as many requests as BentoML's own dispatcher puts together."""

    @bentoml.api(route="/predict", **BATCHING)  # type: ignore[untyped-decorator]
    def predict(self, instances: np.ndarray) -> np.ndarray:
        return compute(instances)  # type: ignore[no-any-return]
