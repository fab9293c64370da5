"""A config as flat values with the place that each came from, for people and programs; and what differs between two.

The engine serves it on its control port, `tidegate config` prints it, and a reload begins with the difference.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate_serving.config.engine_config import EngineConfig
from tidegate_serving.config.fleet import FleetConfig
from tidegate_serving.config.layers import COMMAND_LINE, ENVIRONMENT_PREFIX, VARIABLE
from tidegate_serving.config.model import BatchingConfig, ModelConfig
from tidegate_serving.contract.errors import FailedPrecondition
from tidegate_serving.redaction import REMOVED, hidden, is_secret
from tidegate_serving.typed_config import keys

DEFAULT = "default"
_IN_USE = ", in use: "
FIXED = {
    "grpc_address": "clients are connected to it",
    "rest_address": "clients are connected to it",
    "grpc_socket_path": "clients are connected to it",
    "control_address": "clients are connected to it",
    "control_certificate": "the control port reads this very file again when it changes",
    "control_key": "the control port reads this very file again when it changes",
    "control_client_ca": "the control port reads this very file again when it changes",
    "control_access": "the control port reads this very file again when it changes",
    "data_certificate": "the data ports read this very file again when it changes",
    "data_key": "the data ports read this very file again when it changes",
    "data_client_ca": "the data ports read this very file again when it changes",
    "grpc_ssl_config": "the gRPC endpoint reads this very file again when it changes",
    "data_access": "the data ports read this very file again when it changes",
    "metrics_path": "it is set when the REST endpoint opens",
    "rest_cors": "it is set when the REST endpoint opens",
    "tensor_content": "it is set when the gRPC endpoint opens",
    "shared_memory": "clients may hold regions",
    "state_directory": "the engine holds it",
    "push_stores": "the engine holds their caches",
    "request_memory_bytes": "requests hold shares of it",
    "io_threads": "connections live on them",
    "header_seconds": "connections live by it",
    "idle_seconds": "connections live by it",
    "keepalive_seconds": "connections live by it",
    "write_seconds": "connections live by it",
    "event_keepalive_seconds": "it is set when the REST endpoint opens",
    "log_path": "the log's writer holds it",
    "prediction_log_path": "the log's writer holds it",
    "log_columns": "the log's writer holds it",
    "log_salt_file": "the log's writer holds it",
    "log_block_rows": "the log's buffers are made at the start",
    "log_block_seconds": "the log's buffers are made at the start",
    "log_buffer_bytes": "the log's buffers are made at the start",
    "access_log_path": "its writer holds it",
    "access_log_sampling_rate": "it is set when the endpoints open",
    "access_log_refused_per_second": "it is set when the endpoints open",
    "slow_request_seconds": "it is set when the endpoints open",
    "trace_endpoint": "it is set when the endpoints open",
    "trace_sampling_rate": "it is set when the endpoints open",
    "ready_file": "it is written at the start",
    "fleet": "the engine is a node under that name",
}
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One value: its dotted key, itself as JSON would have it, None for one that is not set, and where it came from."""

    key: str
    value: Any
    origin: str

    @property
    def is_default(self) -> bool:
        """Whether nobody said it."""
        return self.origin == DEFAULT or self.origin.startswith(f"{DEFAULT}{_IN_USE}")


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One difference, without secrets; None on either side where a key is not set there. `fixed` says why it needs a
    restart."""

    key: str
    before: Any
    after: Any
    fixed: str = ""

    def __str__(self) -> str:
        restart = f"   (needs a restart: {self.fixed})" if self.fixed else ""
        if self.before == self.after == REMOVED:
            return f"{self.key}: another secret{restart}"
        return f"{self.key}: {_said(self.before)} -> {_said(self.after)}{restart}"


@dataclass(frozen=True, slots=True)
class ConfigDiff:
    """All differences, by key. `unseen`: secrets of a running engine, which only that engine can compare."""

    changes: tuple[ConfigChange, ...] = ()
    unseen: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        lines = [str(change) for change in self.changes] or ["nothing changes"]
        if self.unseen:
            lines.append(f"not compared, because they are secret: {', '.join(self.unseen)} (a reload's dry run does)")
        return "\n".join(lines)

    def check_live(self) -> None:
        """FailedPrecondition where a key is among them that only a restart can change."""
        stuck = [change for change in self.changes if change.fixed]
        if stuck:
            reasons = "; ".join(f"{change.key}: {change.fixed}" for change in stuck)
            raise FailedPrecondition(
                f"{', '.join(change.key for change in stuck)} cannot change while the engine runs ({reasons}), so "
                "nothing was changed: put the old value back, or restart the engine"
            )


def effective(config: EngineConfig) -> list[ConfigValue]:
    """Every value of a config, defaults among them, in the order of the keys. Of a 0 that stands for a share of the
    machine's memory the origin says how much that is."""
    in_use = {"request_memory_bytes": config.request_memory, "worker_memory_bytes": config.worker_memory}
    return [
        ConfigValue(key, value, _origin(config.origins, key) + (_in_bytes(in_use.get(key)) if value == 0 else ""))
        for name in keys(EngineConfig)
        for key, value in _flat(_quoted(name), getattr(config, name))
    ]


def _in_bytes(in_use: int | None) -> str:
    return "" if in_use is None else f"{_IN_USE}{in_use} bytes"


def as_reread(path: Path, running: list[ConfigValue]) -> EngineConfig:
    """What an engine that lives by `running` would have of a file: its variables and its command line win over that, as
    they do when it reads its own again. Raises as `EngineConfig.load`."""
    said = [
        value
        for value in running
        if value.origin.startswith((COMMAND_LINE, VARIABLE)) and value.value not in (None, REMOVED)
    ]
    of_fleet = [value for value in said if value.key.startswith("fleet.")]
    env = {f"{ENVIRONMENT_PREFIX}{value.key.replace('.', '_').upper()}": str(value.value) for value in of_fleet}
    overrides = tomllib.loads(to_toml([value for value in said if value not in of_fleet]))
    return EngineConfig.load(path, env, overrides)


def seen(config: EngineConfig) -> list[ConfigValue]:
    """The same to be shown: secrets are REMOVED."""
    return without_secrets(effective(config))


def without_secrets(values: list[ConfigValue]) -> list[ConfigValue]:
    """The values, with secrets REMOVED."""
    return [ConfigValue(value.key, hidden(value.key, value.value), value.origin) for value in values]


def diff(before: EngineConfig, after: EngineConfig) -> ConfigDiff:
    """What differs."""
    return diff_values(effective(before), effective(after))


def diff_values(before: list[ConfigValue], after: list[ConfigValue]) -> ConfigDiff:
    """What differs between two lists of values, with secrets or both without."""
    old, new = ({value.key: value.value for value in side} for side in (before, after))
    changed = [key for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)]
    unseen = tuple(key for key in old if old[key] == REMOVED == new.get(key) and is_secret(key))
    return ConfigDiff(tuple(_change(key, old.get(key), new.get(key)) for key in changed), unseen)


def _change(key: str, before: Any, after: Any) -> ConfigChange:
    return ConfigChange(key, hidden(key, before), hidden(key, after), FIXED.get(key.partition(".")[0], ""))


def to_toml(values: list[ConfigValue]) -> str:
    """TOML with dotted keys, each with its origin; values that are not set, or removed, are comments."""
    lines = []
    for value in values:
        text = f"{value.key} = {json.dumps(value.value, ensure_ascii=False)}"
        if value.value is None:
            text = f"# {value.key} is not set"
        elif value.value == REMOVED and is_secret(value.key):
            text = f"# {value.key} is set, and a secret"
        lines.append(text if value.origin == DEFAULT else f"{text}  # {value.origin}")
    return "\n".join(lines) + "\n"


def _flat(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, BatchingConfig | FleetConfig | ModelConfig):
        unset = isinstance(value, ModelConfig)
        for known in dataclasses.fields(value):
            item = getattr(value, known.name)
            if not (unset and (item is None or item in ({}, ()))):
                yield from _flat(f"{key}.{known.name}", item)
    elif isinstance(value, Mapping):
        for name in sorted(value):
            yield from _flat(f"{key}.{_quoted(name)}", value[name])
    else:
        yield key, _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _quoted(name: str) -> str:
    return name if _BARE.match(name) else json.dumps(name)


def _origin(origins: Mapping[str, str], key: str) -> str:
    """The key's own, or that of the nearest table above it."""
    plain = key.replace('"', "")
    while plain:
        if plain in origins:
            return origins[plain]
        plain = plain.rpartition(".")[0]
    return DEFAULT


def _said(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
