"""SessionRun by the names of tensors in the graph, which a model's metadata tell."""

from __future__ import annotations

import json
from typing import Any

import grpc
import numpy as np
import pytest
from tests.support.models.zoo_server import Zoo

from tidegate_serving.contract.messages import message
from tidegate_serving.tensor_proto import fill, to_array

SESSION_RUN = "/tensorflow.serving.SessionService/SessionRun"


def tensors(zoo: Zoo, model: str, signature: str, side: str) -> dict[str, str]:
    """Names in the graph by names in the signature."""
    metadata = json.loads(zoo.get(f"/v1/models/{model}/metadata").body)["metadata"]["signature_def"]
    return {name: info["name"] for name, info in metadata["signature_def"][signature][side].items()}


def run(zoo: Zoo, model: str, feeds: dict[str, Any], fetches: list[str], signature: str = "") -> dict[str, Any]:
    request = message("tensorflow.serving.SessionRunRequest")(fetch=fetches)
    request.model_spec.name, request.model_spec.signature_name = model, signature
    for name, value in feeds.items():
        fill(request.feed.add(name=name).tensor, value)
    with grpc.insecure_channel(zoo.server.addresses["grpc"]) as channel:
        call: Any = channel.unary_unary(SESSION_RUN)
        answer = message("tensorflow.serving.SessionRunResponse").FromString(
            call(request.SerializeToString(), timeout=30)
        )
    return {one.name: to_array(one.tensor) for one in answer.tensor}


def test_feeds_and_fetches_may_be_called_as_in_the_graph(zoo: Zoo) -> None:
    x, times = np.array([[1, 2, 3], [4, 5, 6]], np.float32), np.array(2, np.float32)
    fed, fetched = tensors(zoo, "zoo", "scaled", "inputs"), tensors(zoo, "zoo", "scaled", "outputs")
    assert fed["x"].endswith(":0")
    (name,) = fetched.values()
    found = run(zoo, "zoo", {fed["x"]: x, fed["times"]: times}, [name])
    predicted = to_array(zoo.predict("zoo", "scaled", x=x, times=times).outputs[next(iter(fetched))])
    assert list(found) == [name]
    assert found[name].tolist() == predicted.tolist()
    bare = run(zoo, "zoo", {fed["x"].removesuffix(":0"): x, fed["times"]: times}, [name], "scaled")
    by_signature = run(zoo, "zoo", {"x": x, "times": times}, list(fetched), "scaled")
    assert [one.tolist() for one in (*bare.values(), *by_signature.values())] == [found[name].tolist()] * 2


def test_tensors_of_no_one_signature_are_refused(zoo: Zoo) -> None:
    fed, fetched = tensors(zoo, "zoo", "scaled", "inputs"), tensors(zoo, "zoo", "scaled", "outputs")
    x, times = np.ones((2, 3), np.float32), np.array(2, np.float32)
    for feeds, fetches in (
        ({fed["x"]: x}, [*fetched.values()]),
        ({fed["x"]: x, fed["times"]: times}, ["nowhere:0"]),
        ({fed["x"]: x, fed["times"]: times}, [fetched[next(iter(fetched))].replace(":0", ":1")]),
    ):
        with pytest.raises(grpc.RpcError, match="or their tensors in the graph: none of") as refused:
            run(zoo, "zoo", feeds, fetches)
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
