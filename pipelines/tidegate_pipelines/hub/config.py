"""How a hub is set up: one frozen, typed value from a TOML file; without one everything has a default."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any

from tidegate_operators.steps import CanaryRule
from tidegate_pipelines.hub.people_config import AccessConfig, AlertsConfig, ApprovalRule, AuditConfig, OverrideConfig
from tidegate_serving.connection import EngineConnection, read_secret
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.typed_config import check_bounds, read_config, read_toml, within
from tidegate_validation.canary.rule import CanaryMode

_SECONDS = (0.05, 86400.0)
_PARALLEL = (1, 64)


class Runner(enum.StrEnum):
    """Where releases run."""

    HERE = "here"
    AIRFLOW = "airflow"
    KUBEFLOW = "kubeflow"


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """One engine, or a group that serves the same.

    control: the control address, or several with commas between; empty for what `profile` names.
    profile: a profile in the profile file, which also says how to be let in.
    token_file: a file with the token for `control`.
    """

    control: str = ""
    profile: str = ""
    token_file: Path | None = None

    def __post_init__(self) -> None:
        if bool(self.control) == bool(self.profile):
            raise InvalidInput("control and profile: name one of them, the address or the profile")
        if self.control:
            EngineConnection.of(self.control)  # an address that is none is told at the start

    def connection(self) -> EngineConnection:
        """How to reach it."""
        if self.profile:
            return EngineConnection.from_profile(self.profile)
        found = EngineConnection.of(self.control)
        return replace(found, token=read_secret(self.token_file)) if self.token_file else found


@dataclass(frozen=True, slots=True)
class MlflowConfig:
    """The registry whose alias starts releases.

    address: the tracking server; empty for none.
    alias: the alias that asks for a release of the version it is set on.
    tag: instead of the alias, `KEY=VALUE`: the newest version with this tag is to be released.
    serving_alias: the alias that a released version gets; a refused one never has it.
    webhook_secret_file: a file with the secret that webhooks are signed with; None takes no webhooks, and polls alone.
    tolerance_seconds: how far a webhook's time may be from the hub's.
    poll_seconds: how often the registry is asked, which finds what webhooks lost.
    timeout_seconds: how long one answer of the registry may take.
    """

    address: str = ""
    alias: str = "candidate"
    tag: str = ""
    serving_alias: str = "serving"
    webhook_secret_file: Path | None = None
    tolerance_seconds: float = within(_SECONDS, 300.0)
    poll_seconds: float = within(_SECONDS, 15.0)
    timeout_seconds: float = within(_SECONDS, 20.0)

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.tag and not all(self.tag.partition("=")):
            raise InvalidInput(f"tag is {self.tag!r}: write KEY=VALUE")
        if self.alias == self.serving_alias:
            raise InvalidInput(f"alias and serving_alias are both {self.alias!r}: use two names")

    def secret(self) -> bytes | None:
        """What webhooks are signed with; None takes none."""
        return (
            read_secret(self.webhook_secret_file, "webhook_secret_file").encode() if self.webhook_secret_file else None
        )


@dataclass(frozen=True, slots=True)
class ReleaseConfig:
    """How models are released: the same for all under `[releases]`, and what single ones want under `[models.NAME]`.

    engine: the engine's name under `[engines]`; empty for the only one.
    held_out: data that training never saw, with the label; a release without it is refused.
    private_key: the validator's key (PEM); None for one that the hub makes in its folder.
    repository: root of the model repository, which the engine sees too; None for one in the hub's folder.
    training: training data, for the profile that skew is judged by.
    sample: rows to tell the signature by, where the model has none and there is no training data.
    label: column of the truth.
    event_time: input with the event's time in Unix seconds.
    entity: column whose equal values belong together.
    policy: TOML file with margins, limits and required gates.
    canary: whether a version is tried on live traffic where another one serves.
    rule: what the canary must show.
    timeout_seconds: how long loading and unloading may take.
    """

    engine: str = ""
    held_out: str = ""
    private_key: Path | None = None
    repository: Path | None = None
    training: str | None = None
    sample: str | None = None
    label: str | None = None
    event_time: str | None = None
    entity: str | None = None
    policy: str | None = None
    canary: bool = True
    rule: CanaryRule = field(default_factory=CanaryRule)
    timeout_seconds: float = within(_SECONDS, 120.0)

    def __post_init__(self) -> None:
        check_bounds(self)


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Where releases run, and how many.

    runner: `here` (a process of its own beside the hub), `airflow` or `kubeflow`.
    parallel: releases that run at the same time here.
    lease_seconds: a release that nobody vouched for so long is taken up again by any hub.
    attempts: how often a release that crashed is taken up before it counts as failed.
    patience_seconds: how long a release is tried again because an engine or the registry does not answer, from the
        first time in a row.
    """

    runner: Runner = Runner.HERE
    parallel: int = within(_PARALLEL, 2)
    lease_seconds: float = within(_SECONDS, 30.0)
    attempts: int = within((1, 1000), 5)
    patience_seconds: float = within((0, 10**8), 86400.0)

    def __post_init__(self) -> None:
        check_bounds(self)


@dataclass(frozen=True, slots=True)
class AirflowConfig:
    """The Airflow whose DAG releases, for `runner = "airflow"`.

    url: of its API server.
    dag: the DAG that is run, with model, version and release in its `conf`.
    user: who signs in, with the password in `password_file`.
    password_file: a file with the password; None for `token_file`.
    token_file: a file with an access token, instead of user and password.
    poll_seconds: how often the run is looked at.
    """

    url: str = "http://127.0.0.1:8080"
    dag: str = "release"
    user: str = ""
    password_file: Path | None = None
    token_file: Path | None = None
    poll_seconds: float = within(_SECONDS, 5.0)


@dataclass(frozen=True, slots=True)
class KubeflowConfig:
    """The Kubeflow Pipelines whose pipeline releases, for `runner = "kubeflow"`.

    url: of its API server.
    package: the compiled pipeline (YAML) that is run.
    parameters: what the pipeline gets; the texts {model}, {version}, {release}, {directory}, {settings} are replaced.
    experiment: the experiment that runs belong to, which is made where it is missing.
    namespace: the Kubernetes namespace of the experiment, where Kubeflow has several users; empty where it has one.
    token_file: a file with an access token.
    poll_seconds: how often the run is looked at.
    """

    url: str = "http://127.0.0.1:8888"
    package: Path | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    experiment: str = "tidegate"
    namespace: str = ""
    token_file: Path | None = None
    poll_seconds: float = within(_SECONDS, 5.0)


@dataclass(frozen=True, slots=True)
class HubConfig:
    """Everything that a hub needs to know.

    address: where it listens, `host:port`, port 0 for any free one.
    public_url: how people reach it, for links in tags and alerts; empty for `http://` and the address.
    directory: where it keeps its database, repository, keys and what releases say.
    database: `postgresql://USER@HOST/NAME` or `sqlite:///FILE`; empty for SQLite in `directory`.
    name: of this replica, among several on one database; empty for host name and process.
    watch_seconds: how often engines are asked how they are.
    skew_reports: the folder to which `tidegate monitor` writes its reports; None for none.
    engines: engines by name; empty for one, `default`: TIDEGATE_PROFILE's, TIDEGATE_CONTROL's, or this machine's.
    mlflow: the registry that starts releases.
    run: where releases run.
    access: who is let in, and how.
    audit: where the audit log goes, and how long it is kept.
    alerts: who hears what is wrong.
    approval: which versions wait for somebody's approval, and whose.
    override: whose overrides of a verdict count.
    airflow: the Airflow that runs them, if it does.
    kubeflow: the Kubeflow Pipelines that runs them, if it does.
    releases: how models are released.
    models: what single models want differently.
    """

    address: str = "127.0.0.1:8600"
    public_url: str = ""
    directory: Path = Path("tidegate-hub")
    database: str = field(default="", repr=False)
    name: str = ""
    watch_seconds: float = within(_SECONDS, 5.0)
    skew_reports: Path | None = None
    engines: dict[str, EngineConfig] = field(default_factory=dict)
    mlflow: MlflowConfig = field(default_factory=MlflowConfig)
    run: RunConfig = field(default_factory=RunConfig)
    access: AccessConfig = field(default_factory=AccessConfig)
    audit: AuditConfig = field(default_factory=AuditConfig)
    alerts: AlertsConfig = field(default_factory=AlertsConfig)
    approval: tuple[ApprovalRule, ...] = ()
    override: OverrideConfig = field(default_factory=OverrideConfig)
    airflow: AirflowConfig = field(default_factory=AirflowConfig)
    kubeflow: KubeflowConfig = field(default_factory=KubeflowConfig)
    releases: ReleaseConfig = field(default_factory=ReleaseConfig)
    models: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_bounds(self)
        for model in self.models:
            self.release_of(model)
        if self.run.runner is Runner.KUBEFLOW and self.kubeflow.package is None:
            raise InvalidInput("runner is kubeflow without a pipeline: name the compiled one, package under [kubeflow]")
        self.access.check_exposure(self.address, self.public_url)

    @classmethod
    def load(
        cls,
        path: Path | None = None,
        *,
        env: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> HubConfig:
        """From a file, with `overrides` that are not None over it; MLflow and the engine come from the environment
        (MLFLOW_TRACKING_URI, TIDEGATE_CONTROL, TIDEGATE_PROFILE) where nothing names them.

        NotFound and InvalidInput name the file, the key and the cure.
        """
        given = os.environ if env is None else env
        values = {} if path is None else read_toml(path, "config file")
        values |= {key: value for key, value in (overrides or {}).items() if value is not None}
        config = read_config(cls, values, str(path or "the hub's config"))
        if not config.mlflow.address and given.get("MLFLOW_TRACKING_URI", "").startswith("http"):
            config = replace(config, mlflow=replace(config.mlflow, address=given["MLFLOW_TRACKING_URI"]))
        return config

    @property
    def database_url(self) -> str:
        """The database, SQLite in the hub's folder where none is named."""
        return self.database or f"sqlite:///{self.directory.absolute()}/hub.db"

    @property
    def private_key(self) -> Path:
        """The validator's key that the hub makes where no model names one; its folder is a ring that engines trust."""
        return self.directory.absolute() / "keys" / "validator.key"

    @property
    def repository(self) -> Path:
        """The model repository where no model names one."""
        return self.directory.absolute() / "models"

    @property
    def address_for_people(self) -> str:
        """The beginning of every link."""
        return (self.public_url or f"http://{self.address}").rstrip("/")

    def connections(self) -> dict[str, EngineConnection]:
        """Each engine by name."""
        if not self.engines:
            return {"default": EngineConnection.from_environment()}
        return {name: engine.connection() for name, engine in self.engines.items()}

    def engine_for(self, model: str, settings: Mapping[str, Any]) -> str:
        """The name of the engine that `release_of` sends a model to, also where there is none of that name any more."""
        asked = {**self.models.get(model, {}), **settings}.get("engine")
        return str(asked or self.releases.engine or next(iter(self.engines), "default"))

    def release_of(self, model: str, settings: Mapping[str, Any] | None = None) -> ReleaseConfig:
        """How `model` is released: `settings` of one request over its own table over `[releases]`.

        InvalidInput for an unknown key or an engine that is not named.
        """
        where = f"models.{model}"
        table = _merged(self.models.get(model, {}), settings or {})
        asked = read_config(ReleaseConfig, table, where)
        below = self.releases
        if asked.rule.mode is CanaryMode.TRAFFIC:  # which has no two answers to one request
            below = replace(below, rule=replace(below.rule, max_disagreement=None, max_difference=None))
        found: ReleaseConfig = _over(below, asked, table)
        if found.engine and found.engine not in self.engines:
            known = ", ".join(self.engines) or "a table [engines.NAME]"
            raise InvalidInput(f"{where}: engine {found.engine!r} is unknown: use {known}")
        if not found.engine and len(self.engines) > 1:
            raise InvalidInput(f"{where}: several engines are there: say engine = one of {', '.join(self.engines)}")
        return found


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Tables in both key by key: who writes one number of a rule keeps the others."""
    both = {**below, **above}
    for key, value in above.items():
        under = below.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            both[key] = _merged(under, value)
    return both


def _over(found: Any, asked: Any, table: Mapping[str, Any]) -> Any:
    """`found` with what `table` names as `asked` has it, in its tables key by key."""
    changes = {}
    for key, value in table.items():
        new, old = getattr(asked, key), getattr(found, key)
        changes[key] = _over(old, new, value) if isinstance(value, Mapping) and is_dataclass(old) else new
    return replace(found, **changes)
