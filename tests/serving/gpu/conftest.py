"""Real GPUs: where none is, or neither PyTorch nor onnxruntime-gpu is installed, nothing here is collected.

On a machine that has one: `python -m pytest tests/serving/gpu`.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from tidegate_serving.platforms.device import gpu_is_here


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


_torch = find_spec("torch") is not None
_here = {
    "test_engine_on_gpu.py": _torch,
    "test_onnx_gpu.py": _installed("onnxruntime-gpu"),
    "test_torch_gpu.py": _torch,
}
collect_ignore = [name for name, installed in _here.items() if not (installed and gpu_is_here())]
