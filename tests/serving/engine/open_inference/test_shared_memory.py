"""Tensors in shared memory through Triton's clients: registered, read, written, and refused where they do not fit."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
import tritonclient.utils.shared_memory as shm
from tests.support.clients.triton import tensor
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import Draft, publish
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

from tidegate_serving.contract.signature import Signature, TensorSpec

ECHO = """
class Model:
    def predict(self, inputs):
        return {"out_x": inputs["x"] * 2, "out_s": inputs["s"]}
"""
WIDE, WORDS = (-1, 4), (-1, 2)
KINDS = Signature(
    (TensorSpec("x", "float32", WIDE), TensorSpec("s", "string", WORDS)),
    (TensorSpec("out_x", "float32", WIDE), TensorSpec("out_s", "string", WORDS)),
)
X = np.arange(8, dtype=np.float32).reshape(2, 4)
S = np.array([[b"a", b"tide"], [b"", b"\xff"]], dtype=object)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("shared")
    echo = Draft(files={"model.py": ECHO}, signature=KINDS, example={"x": [0] * 4, "s": ["a"] * 2})
    with EngineProcess(folder / "engine", roots=[folder / "r"], allow_unverified=True, shared_memory=True) as running:
        with running.control() as control:
            push_and_wait(control, publish(folder / "r", "echo", 1, echo))
        yield running


@pytest.fixture(autouse=True)
def forgets(request: pytest.FixtureRequest) -> Iterator[None]:
    """Regions that a test registered are nobody's after it."""
    yield
    if "client" in request.fixturenames:
        request.getfixturevalue("client").unregister_system_shared_memory()


@contextlib.contextmanager
def region(size: int) -> Iterator[tuple[str, Any]]:
    """A new object and its key."""
    key = f"/tidegate-test-{uuid.uuid4().hex}"
    handle = shm.create_shared_memory_region("made", key, size)
    try:
        yield key, handle
    finally:
        shm.destroy_shared_memory_region(handle)


def ask(client: Any, library: Any, *places: tuple[str, str, int, int]) -> Any:
    """Both inputs, and both outputs where a place is given: (tensor, region, bytes, offset)."""
    inputs, outputs = [], []
    for name, array in {"x": X, "s": S}.items():
        inputs.append(tensor(library, name, array))
        outputs.append(library.InferRequestedOutput(f"out_{name}"))
    made = {one.name(): one for one in (*inputs, *outputs)}
    for one, name, size, offset in places:
        made[one].set_shared_memory(name, size, offset)
    return client.infer("echo", inputs, outputs=outputs)


def test_inputs_and_outputs_may_be_there_or_in_the_message(client: Any, library: Any) -> None:
    words = serialize_byte_tensor(S)
    size = len(words.item())
    with region(4096) as (key, handle), region(512) as (other, out):
        client.register_system_shared_memory("in", key, 4000, 96)
        client.register_system_shared_memory("out", other, 512)
        shm.set_shared_memory_region(handle, [X + 1], offset=96 + 16)
        shm.set_shared_memory_region(handle, [words], offset=96 + 1024)
        found = ask(client, library, ("x", "in", X.nbytes, 16), ("s", "in", size, 1024), ("out_x", "out", 256, 64))
        assert shm.get_contents_as_numpy(out, np.float32, X.shape, 64).tolist() == ((X + 1) * 2).tolist()
        assert found.as_numpy("out_s").tolist() == S.tolist()
        told = found.get_output("out_x")
        # Triton's C++ client takes an output with parameters for one in the body.
        expected = {"shared_memory_region", "shared_memory_byte_size", "shared_memory_offset"}
        assert (
            told.keys() == {"name", "datatype", "shape"} if library is over_http else set(told.parameters) == expected
        )
        found = ask(client, library, ("out_s", "out", 512, 0), ("out_x", "out", 32, 480))
        assert shm.get_contents_as_numpy(out, np.object_, S.shape).tolist() == S.tolist()
        assert shm.get_contents_as_numpy(out, np.float32, X.shape, 480).tolist() == (X * 2).tolist()
        mixed = ask(client, library, ("s", "in", size, 1024), ("out_s", "out", 512, 0))
        assert mixed.as_numpy("out_x").tolist() == (X * 2).tolist()


def test_regions_are_told_and_forgotten(client: Any, library: Any) -> None:
    more = {"as_json": True} if library is over_grpc else {}
    assert "system_shared_memory" in client.get_server_metadata(**more)["extensions"]
    with region(64) as (key, _):
        client.register_system_shared_memory("a", key, 32, 8)
        client.register_system_shared_memory("b", key, 64)
        with pytest.raises(InferenceServerException, match="'a' already in manager"):
            client.register_system_shared_memory("a", key, 32)
        (one,) = rows(client.get_system_shared_memory_status("a", **more))
        assert (one["name"], one["key"], int(one["offset"]), int(one["byte_size"])) == ("a", key, 8, 32)
        assert {one["name"] for one in rows(client.get_system_shared_memory_status(**more))} == {"a", "b"}
        client.unregister_system_shared_memory("a")
        client.unregister_system_shared_memory("a")
        with pytest.raises(InferenceServerException, match="Unable to find shared memory region: 'a'"):
            client.get_system_shared_memory_status("a")
        client.unregister_system_shared_memory()
        assert rows(client.get_system_shared_memory_status(**more)) == []


def rows(status: Any) -> list[Any]:
    return list(status.get("regions", {}).values()) if isinstance(status, dict) else status


def test_what_does_not_fit_is_refused_and_harms_nobody(client: Any, library: Any) -> None:
    with region(64) as (key, _):
        client.register_system_shared_memory("a", key, 64)
        for place, why in (
            (("x", "a", 32, 40), "Invalid offset \\+ byte size for shared memory region: 'a'"),
            (("x", "nowhere", 32, 0), "Unable to find shared memory region: 'nowhere'"),
            (("x", "a", 16, 0), "32"),
            (("x", "a", 2**62, 2**62), "more than the limit"),
            (("out_x", "a", 16, 0), "should be at least 32 bytes to hold the results"),
            (("out_x", "a", 32, 48), "Invalid offset \\+ byte size"),
            (("out_x", "nowhere", 32, 0), "Unable to find"),
        ):
            with pytest.raises(InferenceServerException, match=why):
                ask(client, library, place)
        os.truncate(f"/dev/shm{key}", 8)
        for place in (("x", "a", 32, 0), ("out_x", "a", 32, 0)):
            with pytest.raises(InferenceServerException, match="shared memory region 'a' cannot be"):
                ask(client, library, place)
        assert Path(f"/dev/shm{key}").stat().st_size == 8
        os.truncate(f"/dev/shm{key}", 64)
    assert ask(client, library).as_numpy("out_x").tolist() == (X * 2).tolist()


def test_what_is_no_object_of_its_own_is_not_registered(client: Any, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x" * 64)
    link = Path(f"/dev/shm/tidegate-test-{uuid.uuid4().hex}")
    link.symlink_to(tmp_path / "secret")
    try:
        for key in (
            f"/../..{tmp_path}/secret",
            f"{tmp_path}/secret",
            "/",
            "",
            "..",
            f"/{link.name}",
            "/no-such-object",
        ):
            with pytest.raises(InferenceServerException, match="Unable to open shared memory region: 'a'"):
                client.register_system_shared_memory("a", key, 64)
    finally:
        link.unlink()
    with region(64) as (key, _):
        for size, offset in ((65, 0), (64, 1), (0, 0), (2**63 - 1, 2**63 - 1)):
            with pytest.raises(InferenceServerException, match="are no part"):
                client.register_system_shared_memory("a", key, size, offset)


def test_regions_are_bounded(client: Any) -> None:
    with region(64) as (key, _):
        for number in range(256):
            client.register_system_shared_memory(str(number), key, 64)
        with pytest.raises(InferenceServerException, match="256 shared memory regions are registered: unregister some"):
            client.register_system_shared_memory("more", key, 64)


def test_of_devices_there_is_none(client: Any) -> None:
    assert str(client.get_cuda_shared_memory_status()) in ("", "[]")
    client.unregister_cuda_shared_memory()


def test_it_counts_as_memory_of_requests(tmp_path: Path) -> None:
    publish(tmp_path / "r", "double", 1, Draft())
    large, few = 24 << 20, 16 << 20
    with (
        region(large) as (key, _),
        EngineProcess(
            tmp_path / "engine",
            repository=tmp_path / "r",
            allow_unverified=True,
            shared_memory=True,
            request_memory_bytes=few,
        ) as running,
        over_grpc.InferenceServerClient(running.addresses["grpc"]) as client,
    ):
        client.register_system_shared_memory("large", key, large)
        x = over_grpc.InferInput("x", [large // X.itemsize], "FP32")
        x.set_shared_memory("large", large)
        with pytest.raises(InferenceServerException, match="request_memory_bytes"):
            client.infer("double", [x])
        x = over_grpc.InferInput("x", [2], "FP32")
        x.set_shared_memory("large", 2 * X.itemsize)
        assert client.infer("double", [x]).as_numpy("y").tolist() == [2, 2]


def test_it_is_used_where_the_operator_wants_it(tmp_path: Path) -> None:
    with (
        EngineProcess(tmp_path) as running,
        over_grpc.InferenceServerClient(running.addresses["grpc"]) as client,
    ):
        with pytest.raises(InferenceServerException, match="have the engine's operator set shared_memory"):
            client.register_system_shared_memory("a", "/a", 64)
        client.unregister_system_shared_memory()
        assert not client.get_system_shared_memory_status().regions
        assert "system_shared_memory" not in client.get_server_metadata().extensions
