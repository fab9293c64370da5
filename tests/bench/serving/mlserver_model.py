"""One of the bench's models for MLServer; run by `mlserver start` of its own environment, asked by Open Inference."""

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse
from tests.bench.serving.computing import compute


class Model(MLModel):  # type: ignore[misc]
    """In the server's own process, which is its fastest setting for a model as small as these."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        answer = compute(NumpyCodec.decode_input(payload.inputs[0]))
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", answer)])
