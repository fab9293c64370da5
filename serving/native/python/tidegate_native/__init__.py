"""The native data plane, as `tidegate_native.pyi` beside this folder describes it.

Everything comes from the extension module `_native`; `tidegate_serving.requests` and `tidegate_serving.low_priority`
are the only importers.
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
