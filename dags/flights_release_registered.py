"""Releases each version of the flights model that alias `champion` of MLflow's registry comes to name."""

from os import environ

from airflow.sdk import DAG, Asset, AssetWatcher

from tidegate import airflow as tide

TRIGGER = tide.RegisteredModelTrigger(name="flights", uri=environ.get("MLFLOW_TRACKING_URI", "http://mlflow:5000"))
CHAMPION = Asset("x-mlflow://registry/flights/champion", watchers=[AssetWatcher("alias", TRIGGER)])
EVENT = "(triggering_asset_events.values() | first | last).extra['payload']"
MODEL = {name: f"{{{{ {EVENT}['{name}'] }}}}" for name in ("name", "version", "uri")}
FROM = {name: f"{{{{ var.value.flights_{name} }}}}" for name in ("held_out", "policy", "private_key")}

with DAG("flights_release_registered", schedule=[CHAMPION], max_active_runs=1, default_args={"retries": 2}) as dag:
    done = tide.PublishRegisteredOperator(task_id="publish", repository="{{ var.value.flights_repository }}", **MODEL)
    done = tide.ValidateModelOperator(task_id="validate", directory=done.output, label_column="late", **FROM)
    done = tide.ServeModelOperator(task_id="serve", directory=done.output, deferrable=True)
    done = tide.CanaryOperator(task_id="canary", directory=done.output, deferrable=True)
    tide.PromoteOperator(task_id="promote", directory=done.output)
