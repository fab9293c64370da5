"""Other servers, each from the package index in an environment of its own under `build/peers`, on the engine's core.

Triton is the server that nvidia-pytriton brings, with a backend in C (`linear.c`) or its own for Python.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import joblib
import numpy as np
import sklearn
from tests.bench.environments import environment
from tests.bench.servers import ROOT, Running, pinned
from tests.bench.serving.workloads import ESTIMATOR, WORKLOADS, Workload, estimator
from tests.support.engine.process import free_port
from tests.support.eventually import eventually

_RUNS_MODELS = [f"numpy=={np.__version__}", f"scikit-learn=={sklearn.__version__}", f"joblib=={joblib.__version__}"]
_PACKAGES = {
    "mosec": ["mosec==0.9.8", "orjson==3.11.4", *_RUNS_MODELS],
    "triton": ["nvidia-pytriton==0.7.0"],
    "mlserver": ["mlserver==1.7.1", *_RUNS_MODELS],
    "bentoml": ["bentoml==1.4.40", *_RUNS_MODELS],
    "litserve": ["litserve==0.2.19", *_RUNS_MODELS],
}
_HERE = Path(__file__).parent
_TRITON_PYTHON = """
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb.get_input_tensor_by_name(request, "x").as_numpy()
            answers.append(pb.InferenceResponse([pb.Tensor("y", CALL)]))
        return answers
"""


def _environment(name: str) -> Path:
    return environment(name, _PACKAGES[name])


class Peer(Protocol):
    """Starts a server in Python with one worker, which takes up to `most_rows` requests at once."""

    def __call__(
        self, workload: Workload, folder: Path, core: int, most_rows: int
    ) -> contextlib.AbstractContextManager[Running]:
        """The running server, whose answers are right."""


@contextlib.contextmanager
def mosec(workload: Workload, folder: Path, core: int, most_rows: int) -> Iterator[Running]:
    """mosec; `/inference` is its path."""
    port = free_port()
    command = [_python("mosec"), str(_HERE / "mosec_server.py"), "--port", str(port)]
    command += ["--address", "127.0.0.1", "--timeout", "60000", "--log-level", "error"]
    with _process(command, folder, core, _told(workload, folder, most_rows)) as process:
        _until_up(process, folder, f"http://127.0.0.1:{port}/metrics")
        workload.check_rest(f"127.0.0.1:{port}", "/inference")
        yield Running("", f"127.0.0.1:{port}", process.pid)


@contextlib.contextmanager
def litserve(workload: Workload, folder: Path, core: int, most_rows: int) -> Iterator[Running]:
    """LitServe; `/predict` is its path."""
    port = free_port()
    command = [_python("litserve"), str(_HERE / "litserve_server.py"), str(port)]
    with _process(command, folder, core, _told(workload, folder, most_rows)) as process:
        _until_up(process, folder, f"http://127.0.0.1:{port}/health")
        workload.check_rest(f"127.0.0.1:{port}", "/predict")
        yield Running("", f"127.0.0.1:{port}", process.pid)


@contextlib.contextmanager
def bentoml(workload: Workload, folder: Path, core: int, most_rows: int) -> Iterator[Running]:
    """BentoML; `/predict` is its path."""
    port = free_port()
    command = [_python("bentoml"), "-m", "bentoml", "serve", "tests.bench.serving.bentoml_server:Model"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--working-dir", str(ROOT)]
    told = {**_told(workload, folder, most_rows), "BENTOML_HOME": str(folder), "BENTOML_DO_NOT_TRACK": "True"}
    with _process(command, folder, core, told) as process:
        _until_up(process, folder, f"http://127.0.0.1:{port}/readyz")
        workload.check_rest(f"127.0.0.1:{port}", "/predict")
        yield Running("", f"127.0.0.1:{port}", process.pid)


@contextlib.contextmanager
def mlserver(workload: Workload, folder: Path, core: int, most_rows: int) -> Iterator[Running]:
    """MLServer with its model in its own process; it is asked at the workload's `infer_path`."""
    told, (rest, grpc, metrics) = _told(workload, folder, most_rows), (free_port() for _ in range(3))
    server = {"host": "127.0.0.1", "http_port": rest, "grpc_port": grpc, "metrics_port": metrics}
    model = {"name": workload.name, "implementation": "tests.bench.serving.mlserver_model.Model"}
    batching = {"max_batch_size": most_rows, "max_batch_time": 0.001} if most_rows > 1 else {}
    (folder / "settings.json").write_text(
        json.dumps({**server, "parallel_workers": 0, "use_structured_logging": False})
    )
    (folder / "model-settings.json").write_text(json.dumps({**model, **batching}))
    command = [str(_environment("mlserver") / "bin/mlserver"), "start", str(folder)]
    with _process(command, folder, core, told) as process:
        _until_up(process, folder, f"http://127.0.0.1:{rest}/v2/health/ready")
        workload.check_infer_rest(f"127.0.0.1:{rest}")
        yield Running(f"127.0.0.1:{grpc}", f"127.0.0.1:{rest}", process.pid)


def _python(name: str) -> str:
    return str(_environment(name) / "bin/python")


def _told(workload: Workload, folder: Path, most_rows: int) -> dict[str, str]:
    """What `computing.py` reads, with the estimator in the folder."""
    folder.mkdir(parents=True)
    path = folder / ESTIMATOR
    if workload.regression:
        joblib.dump(estimator(), path)
    estimated = str(path) if workload.regression else ""
    return {"CALL": workload.call, "ESTIMATOR": estimated, "MOST_ROWS": str(most_rows), "PYTHONPATH": str(ROOT)}


@contextlib.contextmanager
def triton(folder: Path, core: int) -> Iterator[Running]:
    """Triton with every workload in C, and what needs no scikit-learn in Python too, as `NAME_python`."""
    server = next((_environment("triton") / "lib").glob("python3*/site-packages/pytriton/tritonserver"))
    backends, models = folder / "backends", folder / "models"
    (backends / "linear").mkdir(parents=True)
    library = backends / "linear/libtriton_linear.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, _HERE / "linear.c", "-lm"], check=True)
    (backends / "python").mkdir()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for part in (*(server / "backends/python").iterdir(), *(server / "python_backend_stubs" / version).iterdir()):
        (backends / "python" / part.name).symlink_to(part)
    for workload in WORKLOADS:
        _publish_for_triton(workload, models)
    grpc, rest = free_port(), free_port()
    command = [str(server / "bin/tritonserver"), f"--model-repository={models}", f"--backend-directory={backends}"]
    command += [f"--grpc-port={grpc}", f"--http-port={rest}", "--grpc-address=127.0.0.1", "--http-address=127.0.0.1"]
    command += ["--allow-metrics=false", "--log-info=false"]
    python = _environment("triton") / "bin"
    told = {"PATH": f"{python}:{os.environ['PATH']}", "VIRTUAL_ENV": str(python.parent)}
    with _process(command, folder, core, told) as process:
        _until_up(process, folder, f"http://127.0.0.1:{rest}/v2/health/ready")
        yield Running(f"127.0.0.1:{grpc}", f"127.0.0.1:{rest}", process.pid)


def _publish_for_triton(workload: Workload, models: Path) -> None:
    backends = {workload.name: "linear"} | ({} if workload.regression else {f"{workload.name}_python": "python"})
    for name, backend in backends.items():
        version = models / name / "1"
        version.mkdir(parents=True)
        (models / name / "config.pbtxt").write_text(
            f'name: "{name}"\nbackend: "{backend}"\nmax_batch_size: 64\ndynamic_batching {{}}\n'
            f'input [{{ name: "x" data_type: TYPE_FP32 dims: [{workload.width}] }}]\n'
            f'output [{{ name: "y" data_type: TYPE_FP32 dims: [{workload.answer().shape[1]}] }}]\n'
            "instance_group [{ kind: KIND_CPU count: 1 }]\n"
        )
        if backend == "python":
            (version / "model.py").write_text(_TRITON_PYTHON.replace("CALL", workload.call))
        if workload.regression:
            fitted = estimator()
            weights = np.concatenate([fitted.coef_[0], fitted.intercept_]).astype("<f4")
            (models / name / "weights").write_bytes(weights.tobytes())


@contextlib.contextmanager
def _process(
    command: Sequence[str], folder: Path, core: int, told: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """What it says goes into the folder; it and its workers are killed where they do not end by themselves in time."""
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")} | dict(told)
    with pinned(core), (folder / "said.txt").open("wb") as said:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=said, stderr=said, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _until_up(process: subprocess.Popen[bytes], folder: Path, url: str) -> None:
    def up() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended:\n{(folder / 'said.txt').read_text()}")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return True
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    eventually(up, 120)
