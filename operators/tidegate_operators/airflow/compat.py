"""Asks which Airflow this is, so that nothing else has to: every name of Airflow's that the provider uses is from here.

Airflow's own compatibility provider knows where each release keeps them; tested is Airflow 3.
"""

from __future__ import annotations

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    BaseHook,
    BaseOperator,
    BaseOperatorLink,
    Context,
)

__all__ = ["AirflowException", "AirflowFailException", "BaseHook", "BaseOperator", "BaseOperatorLink", "Context"]
