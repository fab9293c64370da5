"""Between which numbers each key of a config may lie, so that a slip of the finger is told and not tried.

`engine_config` and `model` check their values here; so does whoever changes limits while the engine runs.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate_serving.contract.errors import InvalidInput

Bounds = Mapping[str, tuple[float, float]]
_THREADS = (1, 1024)
_ROWS = (1, 2**31 - 1)
_BYTES = (0, 2**63 - 1)
_SECONDS = (0, 10**9)
_SOME_SECONDS = (0.001, 10**9)

LIMITS: Bounds = {
    "max_message_bytes": (1, 2**40),
    "max_connections": (1, 2**31 - 1),
    "request_timeout_seconds": _SOME_SECONDS,
}
ENGINE: Bounds = {
    **LIMITS,
    "poll_seconds": _SECONDS,
    "quiet_seconds": _SECONDS,
    "warm_up_iterations": (1, 1_000_000),
    "warm_up_batch_sizes": _ROWS,
    "load_threads": _THREADS,
    "initial_load_threads": (0, _THREADS[1]),
    "unload_threads": _THREADS,
    "memory_limit_bytes": _BYTES,
    "device_limits_bytes": _BYTES,
    "retry_first_seconds": _SOME_SECONDS,
    "retry_most_seconds": _SOME_SECONDS,
    "log_sampling_rate": (0, 1),
    "log_block_rows": _ROWS,
    "log_block_seconds": _SOME_SECONDS,
    "log_buffer_bytes": _BYTES,
    "io_threads": _THREADS,
    "start_seconds": _SECONDS,
    "drain_seconds": _SECONDS,
}
BATCHING: Bounds = {
    "max_batch_rows": _ROWS,
    "timeout_us": (0, 3_600_000_000),
    "max_queued_rows": _ROWS,
    "concurrency": _THREADS,
    "allowed_batch_sizes": _ROWS,
}
MODEL: Bounds = {"poll_seconds": _SECONDS, "log_sampling_rate": (0, 1), "labels": (0, 2**63 - 1)}


def check_bounds(values: object, bounds: Bounds) -> None:
    """InvalidInput, naming the key, for a number of an object that lies outside; of lists and tables each."""
    for name, (least, most) in bounds.items():
        value = getattr(values, name)
        if isinstance(value, Mapping):
            for key, item in value.items():
                _check(f"{name}.{key}", item, least, most)
        else:
            for item in value if isinstance(value, tuple) else (value,):
                _check(name, item, least, most)


def _check(name: str, value: float | None, least: float, most: float) -> None:
    if value is None or least <= value <= most:
        return
    if most == 1:
        raise InvalidInput(f"{name} is {value}: use a share from 0 to 1")
    raise InvalidInput(f"{name} is {value}: use {f'{least} or more' if value < least else f'{most} or less'}")
