"""Models in a real MLflow registry for a hub to release, with data to judge them by, and a hub's config over both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from tests.support.release.world import World


def frame(count: int, seed: int) -> pd.DataFrame:
    """Rows whose label depends on `a`."""
    random = np.random.default_rng(seed)
    found = pd.DataFrame({"a": random.normal(size=count), "b": random.normal(size=count)})
    found["late"] = (random.random(count) < 1 / (1 + np.exp(-2 * found["a"]))).astype("int64")
    return found


def write_data(folder: Path) -> None:
    """training.parquet and held_out.parquet."""
    frame(2000, 1).to_parquet(folder / "training.parquet")
    frame(2000, 2).to_parquet(folder / "held_out.parquet")


def register(registry: str, *names: str) -> None:
    """Three versions of each model: 1 and 2 are good, 3 has learnt the opposite."""
    import mlflow
    from sklearn.linear_model import LogisticRegression

    mlflow.set_tracking_uri(registry)
    training = frame(2000, 1)
    inputs = training[["a", "b"]]
    client = mlflow.MlflowClient(registry)
    for number, truth in enumerate((training["late"], training["late"], 1 - training["late"]), 1):
        model = LogisticRegression().fit(inputs, truth)
        with mlflow.start_run():
            logged = mlflow.sklearn.log_model(
                model,
                name="model",
                pip_requirements=["scikit-learn"],
                signature=mlflow.models.infer_signature(inputs, model.predict_proba(inputs)),
                pyfunc_predict_fn="predict_proba",
            )
        for name in names:
            if number == 1:
                client.create_registered_model(name)
            client.create_model_version(name, logged.model_uri, model_id=logged.model_id)


def hub_config(world: World, control: str, data: Path, registry: str, more: str = "") -> str:
    """The text of a hub's config over an engine and a registry; `registry` are lines of its table, `more` of the whole
    config."""
    return f"""
watch_seconds = 0.5
{more}
[engines.one]
control = "{control}"
[mlflow]
{registry}
[releases]
held_out = "{data}/held_out.parquet"
training = "{data}/training.parquet"
label = "late"
private_key = "{world.private_key}"
repository = "{world.repository}"
policy = "{world.policy("quality")}"
canary = false
"""
