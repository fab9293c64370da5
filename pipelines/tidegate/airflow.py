"""Airflow operators, hook and link, for DAG files: `from tidegate.airflow import ServeModelOperator`.

Everything is defined in `tidegate_operators.airflow`; importing this needs Airflow (`pip install 'tidegate[airflow]'`)
and imports no engine, numpy or network.
"""

from tidegate_operators.airflow.hook import TidegateHook
from tidegate_operators.airflow.links import VerdictReportLink
from tidegate_operators.airflow.operators import (
    CanaryOperator,
    PromoteOperator,
    PublishModelOperator,
    RollbackOperator,
    ServeModelOperator,
    SkewReportOperator,
    ValidateModelOperator,
)

__all__ = [
    "CanaryOperator",
    "PromoteOperator",
    "PublishModelOperator",
    "RollbackOperator",
    "ServeModelOperator",
    "SkewReportOperator",
    "TidegateHook",
    "ValidateModelOperator",
    "VerdictReportLink",
]
