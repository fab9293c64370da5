"""Releases each version of the flights model that alias `champion` of MLflow's registry comes to name."""

import os

from airflow.sdk import DAG, Asset, AssetWatcher

from tidegate import airflow as tide

SERVER = os.environ.get("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
WATCHER = AssetWatcher("alias", tide.RegisteredModelTrigger(name="flights", uri=SERVER, poll_seconds=10))
CHAMPION = Asset("flights_champion", uri="x-mlflow://registry/flights/champion", watchers=[WATCHER])
VERSION = "{{ (triggering_asset_events.values() | first | last).extra['payload']['version'] }}"
FROM = {name: f"{{{{ var.value.flights_{name} }}}}" for name in ("held_out", "policy", "private_key")}
MODEL = {"name": "flights", "version": VERSION, "uri": SERVER, "repository": "{{ var.value.flights_repository }}"}

with DAG("flights_release_registered", schedule=[CHAMPION], max_active_runs=1):
    done = tide.PublishRegisteredOperator(task_id="publish", sample=FROM["held_out"], **MODEL)
    done = tide.ValidateModelOperator(task_id="validate", directory=done.output, **FROM)
    done = tide.ServeModelOperator(task_id="serve", directory=done.output, deferrable=True)
    done = tide.CanaryOperator(task_id="canary", directory=done.output, deferrable=True)
    tide.PromoteOperator(task_id="promote", directory=done.output)
