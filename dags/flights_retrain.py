"""Trains the flights model anew when its traffic is skewed, publishes it and has it released."""

from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

from tidegate.airflow import PublishModelOperator, skew_asset

NEWEST = "ls '{{ var.value.flights_repository }}/flights' | grep -xE '[0-9]+' | sort -n | tail -n 1"
NEXT = "{{ ti.xcom_pull(task_ids='newest') | int + 1 }}"
NAMES = ("files", "platform", "training", "signature", "repository")
FROM = {name: f"{{{{ var.value.get('flights_{name}', '') }}}}" for name in NAMES}
CONF = {name: f"{{{{ var.value.flights_{name} }}}}" for name in ("held_out", "private_key", "training")}
CONF["directory"] = "{{ ti.xcom_pull(task_ids='publish')['directory'] }}"

with DAG("flights_retrain", schedule=[skew_asset("flights")], max_active_runs=1) as dag:
    train = BashOperator(task_id="train", bash_command="{{ var.value.flights_train }}")
    newest = BashOperator(task_id="newest", bash_command=NEWEST)
    publish = PublishModelOperator(task_id="publish", servable="flights", version=NEXT, label_column="late", **FROM)
    train >> newest >> publish >> TriggerDagRunOperator(task_id="release", trigger_dag_id="flights_release", conf=CONF)
