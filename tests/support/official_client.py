"""A TensorFlow Serving user's own program: the official stubs, against an engine's gRPC door.

Run as a process of its own, `python -m tests.support.official_client FOLDER ADDRESS MODEL`; FOLDER holds TensorFlow's
message modules, generated from the checked-in descriptor set, because the official stubs import them from `tensorflow`.
"""

from __future__ import annotations

import json
import sys
import types


def main(folder: str, address: str, model: str) -> None:
    """Prints what the official client got, as JSON."""
    # TensorFlow itself, where it is installed, would take ten seconds: its message modules are enough.
    messages = types.ModuleType("tensorflow")
    messages.__path__ = [f"{folder}/tensorflow"]
    sys.modules["tensorflow"] = messages
    sys.path.insert(0, folder)
    import grpc
    import numpy as np
    from tensorflow.core.framework import tensor_pb2, tensor_shape_pb2, types_pb2
    from tensorflow_serving.apis import (
        get_model_metadata_pb2,
        get_model_status_pb2,
        model_service_pb2_grpc,
        predict_pb2,
        prediction_service_pb2_grpc,
    )

    def predict(tensor: tensor_pb2.TensorProto, label: str = "") -> predict_pb2.PredictResponse:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = model
        if label:
            request.model_spec.version_label = label
        request.inputs["x"].CopyFrom(tensor)
        return prediction.Predict(request, timeout=10)

    def answer(response: predict_pb2.PredictResponse) -> dict[str, object]:
        values = np.frombuffer(response.outputs["y"].tensor_content, "<f4").tolist()
        return {"y": values or list(response.outputs["y"].float_val), "version": response.model_spec.version.value}

    with grpc.insecure_channel(address) as channel:
        prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        models = model_service_pb2_grpc.ModelServiceStub(channel)
        shape = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=3)])
        floats = types_pb2.DT_FLOAT
        content = np.array([1, 2, 5], "<f4").tobytes()
        found: dict[str, object] = {
            "content": answer(
                predict(tensor_pb2.TensorProto(dtype=floats, tensor_shape=shape, tensor_content=content))
            ),
            "values": answer(predict(tensor_pb2.TensorProto(dtype=floats, tensor_shape=shape, float_val=[1, 2, 5]))),
            "filled": answer(predict(tensor_pb2.TensorProto(dtype=floats, tensor_shape=shape, float_val=[4]))),
            "label": answer(
                predict(tensor_pb2.TensorProto(dtype=floats, tensor_shape=shape, float_val=[4]), label="canary")
            ),
        }
        status_request = get_model_status_pb2.GetModelStatusRequest()
        status_request.model_spec.name = model
        status = models.GetModelStatus(status_request, timeout=10)
        found["status"] = {str(entry.version): entry.state for entry in status.model_version_status}
        metadata_request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        metadata_request.model_spec.name = model
        metadata = prediction.GetModelMetadata(metadata_request, timeout=10)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        metadata.metadata["signature_def"].Unpack(signatures)
        found["method"] = signatures.signature_def["serving_default"].method_name
        try:
            predict(tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[b"a"]))
        except grpc.RpcError as error:
            found["refusal"] = error.code().name
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
