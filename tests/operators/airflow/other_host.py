"""An Airflow on another host than the engine: it reaches the control port by TLS and token, and nothing of its disk.

Part of `make test-extras`: both hosts are network namespaces, and each release is a run of a DAG with all its tasks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.engine.remote import RemoteEngine
from tests.support.eventually import eventually
from tests.support.neighbours.two_hosts import Host, two_hosts
from tests.support.release.world import BETTER, HONEST, NAME, SIGNATURE, World, make_world

CONTROL, GRPC, STORE = 8502, 8500, 9000
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
SECONDS = 600

DAG = """
from airflow.sdk import DAG
from tidegate.airflow import (
    CanaryOperator,
    PromoteOperator,
    PublishModelOperator,
    ServeModelOperator,
    ValidateModelOperator,
)

FIELDS = ("files", "repository", "training", "signature", "version", "store")
EVIDENCE = ("held_out", "policy")
PARAMS = dict.fromkeys((*FIELDS, *EVIDENCE, "rule"), "")
FROM = {name: f"{{{{ params.{name} }}}}" for name in PARAMS}

with DAG("release", schedule=None, params=PARAMS, render_template_as_native_obj=True) as dag:
    published = PublishModelOperator(
        task_id="publish",
        servable="tiny",
        platform="python",
        label_column="late",
        **{name: FROM[name] for name in FIELDS},
    )
    validated = ValidateModelOperator(
        task_id="validate",
        directory=published.output,
        signing_conn_id="tidegate_signing",
        **{name: FROM[name] for name in EVIDENCE},
    )
    served = ServeModelOperator(task_id="serve", directory=validated.output, deferrable=True)
    tried = CanaryOperator(task_id="canary", directory=served.output, rule=FROM["rule"])
    PromoteOperator(task_id="promote", directory=tried.output)
"""
RULE = {"pairs": 20, "within_seconds": 120.0, "max_error_share": 0.3, "max_slow_share": 0.9}
MAKE = """
import fsspec, sys
fsspec.filesystem("s3").mkdir("bucket")
"""


@dataclass(frozen=True)
class Apart:
    """The engine's folder and host, and the worker's."""

    engine: RemoteEngine
    world: World
    here: Host
    there: Host

    @property
    def environment(self) -> dict[str, str]:
        """The worker's: it has credentials for the store, and a cache of its own."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEGATE", "AIRFLOW"))}
        store = {**KEYS, "AWS_ENDPOINT_URL": f"http://{self.here.address}:{STORE}"}
        return {**kept, **store, "HOME": str(self.world.root / "home"), "XDG_CACHE_HOME": str(self.world.root / "home")}

    def connection(self, token: str) -> dict[str, Any]:
        extra = {"tls": True, "ca": str(self.engine.authority.file)}
        return {
            "conn_type": "tidegate",
            "host": self.here.address,
            "port": CONTROL,
            "password": self.engine.tokens.get(token, token),
            "extra": extra,
        }

    def on_worker(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Runs Python on the worker's host, where the engine's folder is not."""
        there = self.there.command(sys.executable, *command, hidden=[self.engine.process.folder])
        env = {**self.environment, **more}
        return subprocess.run(there, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)

    def status(self, **more: str) -> subprocess.CompletedProcess[str]:
        """`tidegate status` there, with these variables."""
        address, authority = f"tidegates://{self.here.address}:{CONTROL}", str(self.engine.authority.file)
        variables = {"TIDEGATE_CONTROL": address, "TIDEGATE_CA": authority, **more}
        return self.on_worker("-m", "tidegate_pipelines.cli", "status", "--json", **variables)

    def release(self, *runs: dict[str, Any], token: str = "release") -> dict[str, Any]:
        """What became of runs of the DAG."""
        dag = self.world.root / "dags" / "release.py"
        dag.parent.mkdir(exist_ok=True)
        dag.write_text(DAG)
        key = {"conn_type": "tidegate_signing", "password": self.world.private_key.read_text()}
        told = {
            "dag": str(dag),
            "home": str(self.world.root / "airflow"),
            "runs": runs,
            "connections": {"tidegate_default": self.connection(token), "tidegate_signing": key},
            "grpc": f"{self.here.address}:{GRPC}",
            "servable": NAME,
            "look": str(self.engine.process.folder),
        }
        done = self.on_worker("-m", "tests.support.orchestrators.remote_release", json.dumps(told))
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def conf(self, version: int, source: str) -> dict[str, Any]:
        """A run that publishes and releases this version."""
        files = self.world.root / f"trained-{version}" / "model.py"
        files.parent.mkdir(exist_ok=True)
        files.write_text(source)
        (self.world.root / "signature.json").write_text(json.dumps(SIGNATURE.to_dict()))
        return {
            "files": str(files),
            "version": version,
            "repository": str(self.world.repository),
            "training": str(self.world.held_out),
            "signature": str(self.world.root / "signature.json"),
            "store": "s3://bucket/models",
            "held_out": str(self.world.held_out),
            "policy": str(self.world.policy("quality")),
            "rule": RULE,
        }


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    folder = tmp_path_factory.mktemp("engine")
    world = make_world(tmp_path_factory.mktemp("worker"))
    with two_hosts() as (here, there):
        store = [sys.executable, "-m", "moto.server", "-H", here.address, "-p", str(STORE)]
        process = subprocess.Popen(here.command(*store), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            stores: dict[str, Any] = {
                "push_stores.main": {"url": "s3://bucket/models", "cache": str(folder / "engine" / "cache")},
                "push_stores.main.options": {
                    "endpoint_url": f"http://{here.address}:{STORE}",
                    "key": "testing",
                    "secret": "testing",
                },
            }
            engine = RemoteEngine(
                folder,
                hosts=[here.address],
                listen=f"{here.address}:{CONTROL}",
                grpc_address=f"{here.address}:{GRPC}",
                trusted_keys=[world.public_key],
                log_path=folder / "log",
                **stores,
            )
            engine.process.prefix = here.command()
            one = Apart(engine, world, here, there)
            eventually(lambda: one.on_worker("-c", MAKE).returncode == 0, 120.0)
            with engine.process:
                yield one
        finally:
            process.terminate()
            process.wait(30)


def test_a_release_reaches_an_engine_of_which_the_worker_has_no_folder(apart: Apart) -> None:
    found = apart.release(apart.conf(1, HONEST), apart.conf(2, BETTER))
    assert [one["state"] for one in found["ended"]] == ["success", "success"], found
    assert found["look"] == [], "the worker sees nothing of the engine's folder"
    refused = apart.status()
    assert refused.returncode == 2, "who has no token is told nothing"
    assert "TIDEGATE_TOKEN_FILE" in refused.stderr
    shown = apart.status(TIDEGATE_TOKEN=apart.engine.tokens["look"])
    assert shown.returncode == 0, shown.stderr
    (tiny,) = json.loads(shown.stdout)["servables"]
    assert tiny["desired"]["labels"] == {"stable": 2}
    (version,) = tiny["desired"]["versions"]
    assert version["address"] == f"s3://bucket/models/{NAME}/2"
