"""The services of docker/compose.yaml, each from its image, and a release that runs through all of them."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

from tests.docker.containers import Composition, Service
from tests.support.eventually import eventually

ROOT = Path(__file__).parent.parent.parent
TRAINING = Path(__file__).parent / "train_flights.py"
RELEASE_SECONDS = 300.0


def test_a_release_runs_through_all_services(tmp_path: Path) -> None:
    with Composition(ROOT / "docker/compose.yaml", tmp_path) as composition:
        airflow = composition.services["airflow-scheduler"]
        models = tmp_path / "volumes/models"
        (models / TRAINING.name).write_text(TRAINING.read_text())
        airflow.run(["python3", f"/models/{TRAINING.name}", "/models"])
        published = ["--repository", "/models", "--training", "/models/train.parquet", "--label", "late"]
        uri = ["--uri", "http://mlflow:5000"]
        airflow.run(["tidegate", "mlflow", "publish", "flights", "1", *uri, *published])
        release(airflow)
        assert predict({"distance": 900.0, "delay": 90.0}) == 1
        assert predict({"distance": 900.0, "delay": 1.0}) == 0


def release(airflow: Service) -> None:
    """Runs the release DAG of dags/ and waits for its end."""
    conf = {
        "directory": "/models/flights/1",
        "held_out": "/models/held_out.parquet",
        "private_key": "/run/tidegate/validator.key",
        "training": "/models/train.parquet",
    }
    airflow.run(["airflow", "dags", "unpause", "flights_release"])
    airflow.run(["airflow", "dags", "trigger", "flights_release", "--run-id", "first", "--conf", json.dumps(conf)])

    def state() -> str:
        said = airflow.run(["airflow", "dags", "list-runs", "flights_release", "--output", "json"])
        runs = json.loads(next(line for line in said.splitlines() if line.startswith("[{")))
        return str(next(run["state"] for run in runs if run["run_id"] == "first"))

    eventually(lambda: state() in ("success", "failed"), RELEASE_SECONDS)
    assert state() == "success", airflow.run(["airflow", "tasks", "states-for-dag-run", "flights_release", "first"])


def predict(instance: dict[str, float]) -> int:
    """What the engine answers clients."""
    body = json.dumps({"instances": [instance]}).encode()
    with urllib.request.urlopen("http://127.0.0.1:8501/v1/models/flights:predict", body, 10) as response:
        answer = json.load(response)["predictions"][0]
    return int(answer["prediction"] if isinstance(answer, dict) else answer)
