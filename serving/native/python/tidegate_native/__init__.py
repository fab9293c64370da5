"""The native data plane, as `tidegate_native.pyi` beside this folder describes it.

Everything comes from the extension module `_native`; `tidegate_serving.requests` and `tidegate_serving.calm` are the
only importers.
"""

from ._native import (
    Batch,
    Batching,
    DataPlane,
    Failed,
    LogBlock,
    Publish,
    Result,
    Retire,
    SetBatching,
    SetDefault,
    SetLabels,
    SetLog,
    SetOff,
    SetSplit,
    SetTee,
    Settings,
    Signature,
    TensorSpec,
    __version__,
    file_sha256,
    stand_back,
)

__all__ = [
    "Batch",
    "Batching",
    "DataPlane",
    "Failed",
    "LogBlock",
    "Publish",
    "Result",
    "Retire",
    "SetBatching",
    "SetDefault",
    "SetLabels",
    "SetLog",
    "SetOff",
    "SetSplit",
    "SetTee",
    "Settings",
    "Signature",
    "TensorSpec",
    "__version__",
    "file_sha256",
    "stand_back",
]
