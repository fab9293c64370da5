"""What `-C NAME=VALUE` says of a deployment, and the help that MLflow shows of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.typed_config import read_config
from tidegate_validation.canary.rule import CanaryRule

_WHERE = "the deployment's config"
_RULE = frozenset(one.name for one in fields(CanaryRule))
_HELP = """Tidegate releases a model into its serving engine: published, judged by the gates, pushed with a
signed verdict, tried as a canary, and given to all clients. What a gate refuses never serves, and the version
before goes on.

Target: tidegate://HOST:PORT, the engine's control port; tidegates:// with TLS
(?ca=FILE&certificate=FILE&key=FILE). Plain `tidegate` takes the engine from the environment: TIDEGATE_PROFILE,
or TIDEGATE_CONTROL. A token comes from TIDEGATE_TOKEN or TIDEGATE_TOKEN_FILE.

The name of a deployment is what clients call the model. The model URI is models:/NAME/NUMBER or
models:/NAME@ALIAS, which keep the registry's number, or runs:/RUN/PATH, or whatever else MLflow can download.
Endpoints have no meaning here.

Config of create and update (-C NAME=VALUE):
  held_out       data that training never saw, with the label; needed
  private_key    the validator's PEM file; needed
  repository     root of the model repository, which the engine sees too; else TIDEGATE_REPOSITORY, else models
  training       training data, for the profile that skew is judged by
  sample         rows to tell the signature by, where the model has none and there is no training data
  label          column of the truth
  event_time     input with the event's time in Unix seconds
  entity         column whose equal values belong together
  baseline       version directory to compare with; else what serves
  log_root       inference log of what serves; else the engine's
  policy         TOML file with margins, limits and required gates
  canary         no leaves the canary out; else it is tried on live traffic, with these rules:
                 {rule}
  version        number of a version that is in no registry; else the next one that is free
  record         no keeps the verdict from the registry, where it else becomes tags, metrics and artifacts
  tracking_uri   MLflow's server; else MLFLOW_TRACKING_URI
  timeout        seconds that loading and unloading may take

run-local takes training, sample, label, event_time, allow_pickle, grpc_address and rest_address, asks no gate, and
serves until it is interrupted.
"""


@dataclass(frozen=True, slots=True)
class ReleaseSettings:
    """How a deployment is released; see `target_help`."""

    held_out: str = ""
    private_key: Path | None = None
    repository: Path | None = None
    training: str | None = None
    sample: str | None = None
    label: str | None = None
    event_time: str | None = None
    entity: str | None = None
    baseline: str | None = None
    log_root: str | None = None
    policy: str | None = None
    canary: bool = True
    version: int | None = None
    record: bool = True
    tracking_uri: str | None = None
    timeout: float = 120.0
    rule: CanaryRule = field(default_factory=CanaryRule, metadata={"config": False})

    @classmethod
    def read(cls, config: Mapping[str, Any] | None) -> ReleaseSettings:
        """From MLflow's config. InvalidInput for an unknown key, an unusable value, and what is needed and missing."""
        given = dict(config or {})
        rule = CanaryRule.from_dict({name: given.pop(name) for name in _RULE & given.keys()})
        settings = read_config(cls, given, _WHERE, texts=True)
        for name, cure in (("held_out", "data that training never saw"), ("private_key", "the validator's PEM file")):
            if not getattr(settings, name):
                raise InvalidInput(f"{_WHERE} has no {name}: give {cure}, -C {name}=FILE")
        return replace(settings, rule=rule)

    @property
    def root(self) -> Path:
        """Of the model repository."""
        return self.repository or Path(os.environ.get("TIDEGATE_REPOSITORY") or "models")


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """How a model is tried on this machine; see `target_help`."""

    training: str | None = None
    sample: str | None = None
    label: str | None = None
    event_time: str | None = None
    tracking_uri: str | None = None
    allow_pickle: bool = False
    grpc_address: str = "127.0.0.1:8500"
    rest_address: str = "127.0.0.1:8501"
    ready_file: Path | None = None

    @classmethod
    def read(cls, config: Mapping[str, Any] | None) -> LocalSettings:
        """From MLflow's config. InvalidInput for an unknown key or an unusable value."""
        return read_config(cls, dict(config or {}), _WHERE, texts=True)


def target_help() -> str:
    """What `mlflow deployments help -t tidegate` shows."""
    rules = ", ".join(one.name for one in fields(CanaryRule))
    return _HELP.format(rule=rules)
