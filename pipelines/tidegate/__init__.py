"""The public face of Tidegate: what users need, re-exported and imported only when it is asked for (PEP 562).

    import numpy as np
    import tidegate

    tidegate.publish(tidegate.Publication(files=..., servable="flights", version=1, ...))
    with tidegate.Client("127.0.0.1:8500") as client:
        client.predict("flights", {"distance": np.float32([719.0]), ...})

Airflow operators are in `tidegate.airflow`, Kubeflow components and pipelines in `tidegate.kfp`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate_operators.steps import (
        CanaryResult,
        CanaryRule,
        Evidence,
        Publication,
        canary,
        find_baseline,
        judge,
        promote,
        publish,
        push,
        rollback,
        skew,
        validate,
        verify,
        withdraw,
    )
    from tidegate_pipelines.monitor import Observation, Watch, monitor
    from tidegate_pipelines.release import Release, release
    from tidegate_serving.admission import make_keys
    from tidegate_serving.client import Client
    from tidegate_serving.config import EngineConfig
    from tidegate_serving.connection import EngineConnection
    from tidegate_serving.contract.errors import Refused, TidegateError
    from tidegate_serving.contract.servable import ServableId, State
    from tidegate_serving.contract.signature import Signature, TensorSpec
    from tidegate_serving.control_client import ControlClient
    from tidegate_serving.engine import Engine
    from tidegate_serving.prediction import Prediction

    __version__: str

__all__ = [
    "CanaryResult",
    "CanaryRule",
    "Client",
    "ControlClient",
    "Engine",
    "EngineConfig",
    "EngineConnection",
    "Evidence",
    "Observation",
    "Prediction",
    "Publication",
    "Refused",
    "Release",
    "ServableId",
    "Signature",
    "State",
    "TensorSpec",
    "TidegateError",
    "Watch",
    "__version__",
    "canary",
    "find_baseline",
    "judge",
    "make_keys",
    "monitor",
    "promote",
    "publish",
    "push",
    "release",
    "rollback",
    "skew",
    "validate",
    "verify",
    "withdraw",
]

_STEPS = "tidegate_operators.steps"
_HOMES = {
    "CanaryResult": _STEPS,
    "CanaryRule": _STEPS,
    "Client": "tidegate_serving.client",
    "ControlClient": "tidegate_serving.control_client",
    "Engine": "tidegate_serving.engine",
    "EngineConfig": "tidegate_serving.config",
    "EngineConnection": "tidegate_serving.connection",
    "Evidence": _STEPS,
    "Observation": "tidegate_pipelines.monitor",
    "Prediction": "tidegate_serving.prediction",
    "Publication": _STEPS,
    "Refused": "tidegate_serving.contract.errors",
    "Release": "tidegate_pipelines.release",
    "ServableId": "tidegate_serving.contract.servable",
    "Signature": "tidegate_serving.contract.signature",
    "State": "tidegate_serving.contract.servable",
    "TensorSpec": "tidegate_serving.contract.signature",
    "TidegateError": "tidegate_serving.contract.errors",
    "Watch": "tidegate_pipelines.monitor",
    "canary": _STEPS,
    "find_baseline": _STEPS,
    "judge": _STEPS,
    "make_keys": "tidegate_serving.admission",
    "monitor": "tidegate_pipelines.monitor",
    "promote": _STEPS,
    "publish": _STEPS,
    "push": _STEPS,
    "release": "tidegate_pipelines.release",
    "rollback": _STEPS,
    "skew": _STEPS,
    "validate": _STEPS,
    "verify": _STEPS,
    "withdraw": _STEPS,
}
_MODULES = ("airflow", "kfp")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("tidegate")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
