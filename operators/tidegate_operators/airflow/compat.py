"""Asks which Airflow this is, so that nothing else has to: every name of Airflow's that the provider uses is from here.

Airflow's own compatibility provider knows where each release keeps them; tested is Airflow 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from airflow.providers.common.compat.sdk import (
        AirflowException,
        AirflowFailException,
        AirflowPlugin,
        Asset,
        AssetAlias,
        BaseHook,
        BaseOperator,
        BaseOperatorLink,
        BaseSensorOperator,
        Connection,
        Context,
        PokeReturnValue,
        conf,
    )
    from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"the provider needs {error.name}, which is not installed: run `pip install 'tidegate[airflow]'`",
        name=error.name,
    ) from error

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowPlugin",
    "Asset",
    "AssetAlias",
    "BaseEventTrigger",
    "BaseHook",
    "BaseOperator",
    "BaseOperatorLink",
    "BaseSensorOperator",
    "BaseTrigger",
    "Connection",
    "Context",
    "PokeReturnValue",
    "TriggerEvent",
    "conf",
    "defers_by_default",
    "operator_lineage",
    "signed_in_user",
]


def defers_by_default() -> bool:
    """Whether operators wait in the triggerer, by Airflow's configuration (`[operators] default_deferrable`)."""
    return bool(conf.getboolean("operators", "default_deferrable", fallback=False))


def signed_in_user() -> Callable[..., Any]:
    """FastAPI's dependency by which Airflow's API server knows who asks; it refuses whoever is not signed in."""
    from airflow.api_fastapi.core_api.security import get_user

    return get_user


def operator_lineage() -> Any:
    """The class in which Airflow's OpenLineage provider takes what an operator says."""
    from airflow.providers.openlineage.extractors import OperatorLineage

    return OperatorLineage
