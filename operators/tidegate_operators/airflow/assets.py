"""What an Airflow DAG can be scheduled on: a servable whose version changed, a servable whose traffic is skewed.

    with DAG("retrain", schedule=[skew_asset("flights")]): ...

The address names the Airflow connection and the servable, so that DAG files need not know where the engine is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult

from tidegate_operators.airflow.compat import Asset, AssetAlias

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import BaseOperator, Context

DEFAULT_CONNECTION = "tidegate_default"
SCHEME = "tidegate"
_SKEW = "skew"


def servable_asset(servable: str, tidegate_conn_id: str = DEFAULT_CONNECTION) -> Asset:
    """What ordinary clients of a servable get. An event says that PromoteOperator or RollbackOperator has changed it;
    its extra has `servable`, `version`, `directory` and `manifest_digest`."""
    return Asset(uri=f"{SCHEME}://{tidegate_conn_id}/{servable}", name=f"{tidegate_conn_id}/{servable}")


def skew_asset(servable: str, tidegate_conn_id: str = DEFAULT_CONNECTION) -> Asset:
    """The skew of a servable. An event says that SkewReportOperator came to FAIL; its extra is what that returned."""
    return Asset(uri=f"{SCHEME}://{tidegate_conn_id}/{servable}/{_SKEW}", name=f"{tidegate_conn_id}/{servable}/{_SKEW}")


def create_asset(*, servable: str, tidegate_conn_id: str = DEFAULT_CONNECTION, skew: bool = False) -> Asset:
    """Airflow's factory for addresses of this scheme."""
    return (skew_asset if skew else servable_asset)(servable, tidegate_conn_id)


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Airflow's check of addresses of this scheme. ValueError for one that names no connection or servable."""
    path = uri.path.strip("/")
    if not uri.netloc or not path:
        raise ValueError(f"{uri.geturl()} names no servable: write {SCHEME}://CONNECTION/SERVABLE")
    return uri._replace(path=f"/{path}")


def with_outlet(arguments: dict[str, Any], name: str) -> dict[str, Any]:
    """An operator's arguments with an outlet more, through which it emits assets that only a run can name."""
    outlets = arguments.get("outlets") or []
    listed = list(outlets) if isinstance(outlets, Iterable) else [outlets]
    return {**arguments, "outlets": [*listed, AssetAlias(name)]}


def emit(operator: BaseOperator, context: Context, asset: Asset, extra: Mapping[str, Any]) -> None:
    """Emits an event of the asset when the task ends well: once, also where the DAG's author named it as an outlet."""
    events = context["outlet_events"]
    for outlet in operator.outlets:
        if isinstance(outlet, Asset) and outlet.uri == asset.uri:
            events[outlet].extra = dict(extra)
            return
    for outlet in operator.outlets:
        if isinstance(outlet, AssetAlias) and outlet.name.startswith(f"{SCHEME}-"):
            events[outlet].add(asset, extra=dict(extra))
