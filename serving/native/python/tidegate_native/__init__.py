"""The native data plane, as `tidegate_native.pyi` beside this folder describes it.

Everything comes from the extension module `_native`; `requests`, `low_priority` and `stop_signal` of `tidegate_serving` are
the only importers.
"""

from ._native import (
    Batch,
    Batching,
    DataPlane,
    ExitGuard,
    LogBlock,
    PredictError,
    Publish,
    Result,
    Retire,
    SetBatching,
    SetDefault,
    SetDisabled,
    SetLabels,
    SetLog,
    SetShadow,
    SetSplit,
    Settings,
    Signature,
    TensorSpec,
    __version__,
    enter_low_priority,
    file_sha256,
)

__all__ = [
    "Batch",
    "Batching",
    "DataPlane",
    "ExitGuard",
    "LogBlock",
    "PredictError",
    "Publish",
    "Result",
    "Retire",
    "SetBatching",
    "SetDefault",
    "SetDisabled",
    "SetLabels",
    "SetLog",
    "SetShadow",
    "SetSplit",
    "Settings",
    "Signature",
    "TensorSpec",
    "__version__",
    "enter_low_priority",
    "file_sha256",
]
