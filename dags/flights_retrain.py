"""Trains the flights model anew when its traffic is skewed, publishes it and has it released."""

from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

from tidegate.airflow import PublishModelOperator, skew_asset

EVENT = "(triggering_asset_events.values() | first | last).extra"
NEXT = f"{{{{ {EVENT}['version'] | int + 1 }}}}"
NAMES = ("files", "platform", "training", "signature", "repository")
FROM = {name: f"{{{{ var.value.get('flights_{name}', '') }}}}" for name in NAMES}
CONF = {name: f"{{{{ var.value.flights_{name} }}}}" for name in ("held_out", "private_key", "training")}
CONF["directory"] = "{{ ti.xcom_pull(task_ids='publish')['directory'] }}"

with DAG("flights_retrain", schedule=[skew_asset("flights")], max_active_runs=1) as dag:
    train = BashOperator(task_id="train", bash_command="{{ var.value.flights_train }}")
    publish = PublishModelOperator(task_id="publish", servable="flights", version=NEXT, label_column="late", **FROM)
    train >> publish >> TriggerDagRunOperator(task_id="release", trigger_dag_id="flights_release", conf=CONF)
