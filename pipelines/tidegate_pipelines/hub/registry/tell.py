"""Tells the registry what came of its versions: tags with state, verdict and the page, and the alias `serving`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Select, exists, func, select, update
from sqlalchemy.orm import aliased

from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.registry.mlflow_rest import MlflowRegistry
from tidegate_pipelines.hub.registry.reconcile import REGISTRY
from tidegate_pipelines.hub.releases.fetch import MLFLOW
from tidegate_pipelines.hub.store import (
    Database,
    EngineRow,
    RegisteredModelRow,
    ReleaseRow,
    ReleaseState,
    ServedVersionRow,
    VerdictRow,
)
from tidegate_serving.contract.errors import InvalidInput, NotFound, PermissionRefused, Unavailable
from tidegate_validation.counts import counted

logger = logging.getLogger(__name__)
_AT_ONCE = 50
_PROBLEMS = 3
_REFUSALS = 20
"""So many models that may not be written to are asked for in one go; the others have their turn after the pause."""
_LONGEST_PAUSE = 3600.0
_SHOWN = 3
_MOST_LETTERS = 4900
_PREFIX = "tidegate."


@dataclass(frozen=True, slots=True)
class _Refusal:
    """What the registry said, how often in a row, and until when, by the clock, it is not asked again."""

    said: str
    times: int
    until: float


class Teller:
    """Tells each state of a release that the registry asked for, in their order; again after a failure, which does no
    harm."""

    def __init__(
        self,
        config: HubConfig,
        database: Database,
        registry: MlflowRegistry,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._database = database
        self._registry = registry
        self._clock = clock
        self._refused: dict[str, _Refusal] = {}

    @property
    def refusals(self) -> str:
        """Models that the registry does not let the hub tell anything about, as a sentence; empty for none."""
        told = [f"nothing is told of {model}: {one.said}" for model, one in sorted(self._refused.items())]
        more = [f"nor of {counted(len(told) - _SHOWN, 'more model')}"] if len(told) > _SHOWN else []
        return "; ".join(told[:_SHOWN] + more)

    def all(self) -> None:
        """Whatever has not been told. Unavailable where the registry does not answer; one version that it has a fault
        with keeps nothing from being told of the others, nor does a model that it does not let the hub write to, which
        is asked for again after the poll's pause, and ever more rarely up to an hour."""
        problems: list[Unavailable] = []
        told, refused = 0, 0
        while told == 0 and refused < _REFUSALS and not problems and (untold := self._untold()):
            for row in untold:
                if row.model in self._resting():
                    continue
                try:
                    allowed = self._allowed(row.model, partial(self._tell, row))
                    told, refused = told + allowed, refused + (not allowed)
                except Unavailable as error:
                    problems.append(error)
                if len(problems) == _PROBLEMS or refused == _REFUSALS:
                    break
        if not problems:
            self._tell_serving()
        if problems:
            raise problems[0]

    def _untold(self) -> Sequence[ReleaseRow]:
        query = (
            select(ReleaseRow)
            .where(ReleaseRow.source == MLFLOW, ReleaseRow.state != ReleaseRow.told_state)
            .where(ReleaseRow.model.not_in(self._resting()))
            .order_by(ReleaseRow.id)
            .limit(_AT_ONCE)
        )
        with self._database.reading() as session:
            return session.scalars(query).all()

    def _resting(self) -> set[str]:
        """Models that the registry is not asked for now."""
        return {model for model, one in self._refused.items() if one.until > self._clock()}

    def _allowed(self, model: str, tell: Callable[[], None]) -> bool:
        """Whether the registry let something be told of a model."""
        try:
            tell()
        except PermissionRefused as error:
            before = self._refused.get(model)
            times = 0 if before is None else before.times + 1
            if before is None:
                logger.warning("what came of %s is told later: %s", model, error.message)
            pause = min(self._config.mlflow.poll_seconds * 2 ** min(times, 16), _LONGEST_PAUSE)
            self._refused[model] = _Refusal(error.message, times, self._clock() + pause)
            return False
        self._refused.pop(model, None)
        return True

    def _tell_serving(self) -> None:
        """What ordinary clients get by now, where that is not what the registry was told: after a rollback or a block,
        whoever asked the engine for it."""
        with self._database.reading() as session:
            changed = session.execute(
                _serving_otherwise().where(RegisteredModelRow.model.not_in(self._resting()))
            ).all()
        for model, version in changed:
            try:
                self._allowed(model, partial(self._serves, model, version))
            except (NotFound, InvalidInput) as error:
                logger.warning("that version %d of %s serves is not told: %s", version, model, error.message)
                self._told(model, version)

    def _tell(self, row: ReleaseRow) -> None:
        told = row.state
        try:
            for key, value in self._tags(row).items():
                self._registry.set_tag(row.model, row.version, _PREFIX + key, value[:_MOST_LETTERS])
            if told is ReleaseState.RELEASED and self._is_newest(row):
                self._serves(row.model, row.version)
        except (NotFound, InvalidInput) as error:
            logger.warning("release %d is not told: %s", row.id, error.message)
        with self._database.writing() as session:
            found = session.get(ReleaseRow, row.id)
            if found is not None:
                found.told_state = told.value

    def _tags(self, row: ReleaseRow) -> dict[str, str]:
        tags = {"report": f"{self._config.address_for_people}/releases/{row.id}"}
        if row.sentence:
            tags["sentence"] = row.sentence
        with self._database.reading() as session:
            newest = select(VerdictRow).where(VerdictRow.release_id == row.id).order_by(VerdictRow.id.desc())
            verdict = session.scalars(newest.limit(1)).first()
        if verdict is not None:
            tags["outcome"] = str(verdict.document.get("outcome", ""))
            tags["allowed"] = str(verdict.allowed).lower()
            tags["manifest_digest"] = str(verdict.document.get("manifest_digest", ""))
            tags["verdict_digest"] = verdict.digest
        return {**tags, "state": row.state.value}  # The last one: who reads it finds the others.

    def _is_newest(self, row: ReleaseRow) -> bool:
        later = aliased(ReleaseRow)
        query = select(
            exists().where(later.model == row.model, later.state == ReleaseState.RELEASED, later.id > row.id)
        )
        with self._database.reading() as session:
            return not session.scalar(query)

    def _serves(self, model: str, version: int) -> None:
        alias = self._config.mlflow.serving_alias
        before = self._registry.aliases(model).get(alias)
        self._registry.set_alias(model, alias, version)
        self._registry.set_tag(model, version, f"{_PREFIX}serving", "true")
        if before is not None and before != version:
            self._registry.set_tag(model, before, f"{_PREFIX}serving", "false")
        self._told(model, version)

    def _told(self, model: str, version: int) -> None:
        with self._database.writing() as session:
            mine = RegisteredModelRow.registry_name == REGISTRY, RegisteredModelRow.model == model
            session.execute(update(RegisteredModelRow).where(*mine).values(told_serving=version))


def _serving_otherwise() -> Select[str, int]:
    """Models with the one version that ordinary clients get of them, where the registry was told another.

    An engine that was not heard since the model's last release ended may not have said yet what that changed.
    """
    row, registered = ServedVersionRow, RegisteredModelRow
    version = func.max(row.version)
    last = (
        select(func.max(ReleaseRow.finished_at))
        .where(ReleaseRow.model == registered.model, ReleaseRow.state == ReleaseState.RELEASED)
        .scalar_subquery()
    )
    runs = exists().where(ReleaseRow.model == registered.model, ReleaseRow.state == ReleaseState.RUNNING)
    return (
        select(registered.model, version)
        .join(row, row.model == registered.model)
        .join(EngineRow, EngineRow.name == row.engine)
        .where(registered.registry_name == REGISTRY, registered.told_serving.is_not(None), row.ordinary, ~runs)
        .group_by(registered.model, registered.told_serving)
        .having(func.min(row.version) == version, version != registered.told_serving)
        .having(func.min(EngineRow.last_seen) > last)
        .limit(_AT_ONCE)
    )
