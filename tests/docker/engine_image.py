"""The engine's image by itself: its size, its user, how soon it answers, how it ends, and what it says it holds."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docker.containers import OWNER, Container
from tests.support.engine.process import free_port
from tests.support.eventually import eventually
from tests.support.models.versions import publish
from tools.images import ENVIRONMENT, buildah

IMAGE = "tidegate/engine:0.1.0"
MOST_BYTES = 350 << 20
COLD_SECONDS = 3.0


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    made = Container(IMAGE)
    yield made
    made.remove()


def inside(container: Container, *command: str) -> str:
    return subprocess.run(
        container.command(command), check=True, capture_output=True, text=True, env=ENVIRONMENT
    ).stdout


def test_the_compressed_layers_are_small(tmp_path: Path) -> None:
    buildah("push", "--quiet", f"localhost/{IMAGE}", f"oci:{tmp_path}:image")
    assert sum(file.stat().st_size for file in (tmp_path / "blobs/sha256").iterdir()) < MOST_BYTES


def test_it_runs_as_a_user_of_its_own_and_has_a_health_check(container: Container) -> None:
    assert inside(container, "id", "-u").strip() == str(OWNER)
    assert container.config["User"] == f"{OWNER}:{OWNER}"
    assert container.config["Healthcheck"]["Test"][0] == "CMD"
    assert container.config["Labels"]["org.opencontainers.image.version"] == "0.1.0"


def test_its_bill_of_materials_names_what_is_installed(container: Container) -> None:
    bill = json.loads(inside(container, "cat", "/opt/tidegate/sbom.cdx.json"))
    names = {component["name"].lower() for component in bill["components"]}
    assert {"tidegate", "tidegate-native", "onnxruntime", "scikit-learn", "numpy"} <= names
    assert all(component["version"] for component in bill["components"])


def test_it_answers_soon_after_a_cold_start_and_ends_in_peace(container: Container, tmp_path: Path) -> None:
    models, state = tmp_path / "models", tmp_path / "state"
    publish(models, "half_plus_two", 1)
    state.mkdir()
    shutil.chown(state, OWNER, OWNER)
    port = free_port()
    settings = {
        "TIDEGATE_ALLOW_UNVERIFIED": "1",
        "TIDEGATE_REST_ADDRESS": f"127.0.0.1:{port}",
        "TIDEGATE_GRPC_ADDRESS": "",
        "TIDEGATE_CONTROL_ADDRESS": "127.0.0.1:0",
    }
    mounts = [f"{models}:/models:ro", f"{state}:/var/lib/tidegate"]
    # `exec` so that what we end is the engine itself.
    arguments = [*container.config["Entrypoint"], *container.config["Cmd"]]
    began = time.monotonic()
    process = subprocess.Popen(container.command(arguments, settings, mounts), env=ENVIRONMENT)
    try:
        eventually(lambda: process.poll() is not None or answers(port), 60)
        seconds = time.monotonic() - began
    finally:
        for pid in engines(process.pid):
            subprocess.run(["kill", f"-{signal.SIGTERM.value}", str(pid)], check=False)
        status = process.wait(30)
    assert status == 0
    assert seconds <= COLD_SECONDS


def answers(port: int) -> bool:
    body = json.dumps({"instances": [2.0]}).encode()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models/half_plus_two:predict", body, 2) as response:
            return bool(json.load(response) == {"predictions": [3.0]})
    except (urllib.error.URLError, ConnectionError):
        return False


def engines(pid: int) -> list[int]:
    """The processes below one that are not buildah's own."""
    children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    found = []
    for child in map(int, children):
        command = Path(f"/proc/{child}/cmdline").read_text().split("\0")
        found += engines(child) if "buildah" in command[0] else [child]
    return found
