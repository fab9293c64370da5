"""How long it takes until Tidegate is there: `import tidegate`, and an engine from exec to its first answer.

Fresh processes with a warm file cache, as the second start of a day; medians become rows.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from http.client import HTTPConnection
from pathlib import Path

from tests.bench.rows import Row
from tests.support.models.versions import write_manifest

from tidegate_serving.contract.manifest import Manifest, describe_files
from tidegate_serving.contract.repository import version_directory
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec

IMPORT_SECONDS = 0.5
ANSWER_SECONDS = 1.0
TIMES = 9
ID = ServableId("half_plus_two", 1)
EMBEDDED = """
import sys
from tidegate import Engine
with Engine() as engine:
    engine.load(sys.argv[1])
    print(engine.predict("half_plus_two", {"x": [2.0]})["y"].tolist(), flush=True)
    sys.stdin.read()
"""


def measure() -> Sequence[Row]:
    """Medians of `TIMES` fresh processes each, after one that warms the file cache."""
    with tempfile.TemporaryDirectory() as folder:
        directory = publish_small_onnx(Path(folder) / "models")
        served = _median(lambda: _served(Path(folder)))
        embedded = _median(lambda: _embedded(directory))
    imported = _median(_imported)
    first = "from exec to the first answer of one small ONNX model"
    return [
        _row("import tidegate", imported, IMPORT_SECONDS),
        _row(f"`tidegate serve` {first}, over REST", served, ANSWER_SECONDS),
        _row(f"a program with an engine in it {first}", embedded, ANSWER_SECONDS),
    ]


def _row(measure: str, value: float, most: float) -> Row:
    return Row(measure, value, "s", f"at most {most} s", value <= most)


def _median(take: Callable[[], float]) -> float:
    take()
    return statistics.median(take() for _ in range(TIMES))


def _imported() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import tidegate"], check=True)
    return time.perf_counter() - began


def _served(folder: Path) -> float:
    """Until the answer has come; the engine is stopped afterwards."""
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    (folder / "engine.toml").write_text(
        f'repository = "{folder / "models"}"\nallow_unverified = true\nready_file = "{ready}"\n'
        'grpc_address = "127.0.0.1:0"\nrest_address = "127.0.0.1:0"\ncontrol_address = "127.0.0.1:0"\n'
    )
    command = [sys.executable, "-m", "tidegate_pipelines.cli", "serve", "--config", str(folder / "engine.toml")]
    began = time.perf_counter()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            if not any("serving: gRPC" in line for line in process.stderr):
                raise RuntimeError(f"the engine ended with status {process.wait()}")
            _ask(json.loads(ready.read_text())["rest"])
            return time.perf_counter() - began
        finally:
            process.terminate()
            process.communicate()


def _ask(address: str) -> None:
    host, _, port = address.rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=30)
    connection.request("POST", f"/v1/models/{ID.name}:predict", '{"instances": [2.0]}')
    answer = json.loads(connection.getresponse().read())
    connection.close()
    if answer != {"predictions": [3.0]}:
        raise RuntimeError(f"the engine answered {answer}")


def _embedded(directory: Path) -> float:
    command = [sys.executable, "-c", EMBEDDED, str(directory)]
    began = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        answer = process.stdout.readline().strip()
        taken = time.perf_counter() - began
    if answer != "[3.0]":
        raise RuntimeError(f"the embedded engine answered {answer!r}")
    return taken


def publish_small_onnx(repository: Path) -> Path:
    """y = 0.5 x + 2 as an ONNX graph; the version directory."""
    import onnx
    from onnx import TensorProto, helper

    def constant(name: str, value: float) -> onnx.TensorProto:
        return helper.make_tensor(name, TensorProto.FLOAT, [1], [value])

    def tensor(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows"])

    nodes = [helper.make_node("Mul", ["x", "half"], ["h"]), helper.make_node("Add", ["h", "two"], ["y"])]
    graph = helper.make_graph(nodes, "g", [tensor("x")], [tensor("y")], [constant("half", 0.5), constant("two", 2.0)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    directory = version_directory(repository, ID)
    directory.mkdir(parents=True)
    (directory / "model.onnx").write_bytes(model.SerializeToString())
    signature = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "float32"),))
    manifest = Manifest(
        id=ID,
        platform="onnx",
        signatures={SERVING_DEFAULT: signature},
        files=describe_files(directory),
        created_at="2013-01-01T00:00:00Z",
        example={"x": 1.0},
    )
    write_manifest(manifest, directory)
    return directory
