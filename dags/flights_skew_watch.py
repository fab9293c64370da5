"""Judges each hour of the flights model's traffic; a FAIL emits the asset that `flights_retrain.py` waits for."""

from datetime import UTC, datetime

from airflow.sdk import DAG, CronDataIntervalTimetable

from tidegate.airflow import SkewReportOperator

HOURLY = CronDataIntervalTimetable("@hourly", timezone="UTC")
REPORT = "{{ var.value.flights_reports }}/{{ data_interval_end | ts_nodash }}"
START = datetime(2026, 1, 1, tzinfo=UTC)

with DAG("flights_skew_watch", schedule=HOURLY, start_date=START, catchup=False) as dag:
    SkewReportOperator(
        task_id="skew",
        servable="flights",
        since="{{ data_interval_start }}",
        until="{{ data_interval_end }}",
        report=REPORT,
    )
