"""Tells the registry what came of its versions: tags with state, verdict and the page, and the alias `serving`."""

from __future__ import annotations

import logging

from sqlalchemy import exists, select
from sqlalchemy.orm import aliased

from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.registry.mlflow_rest import MlflowRegistry
from tidegate_pipelines.hub.releases.fetch import MLFLOW
from tidegate_pipelines.hub.store import Database, ReleaseRow, ReleaseState, VerdictRow
from tidegate_serving.contract.errors import InvalidInput, NotFound, Unavailable

logger = logging.getLogger(__name__)
_AT_ONCE = 50
_PROBLEMS = 3
_MOST_LETTERS = 4900
_PREFIX = "tidegate."


class Teller:
    """Tells each state of a release that the registry asked for, in their order; again after a failure, which does no
    harm."""

    def __init__(self, config: HubConfig, database: Database, registry: MlflowRegistry) -> None:
        self._config = config
        self._database = database
        self._registry = registry

    def all(self) -> None:
        """Whatever has not been told. Unavailable where the registry does not answer; one version that it has a fault
        with keeps nothing from being told of the others."""
        query = (
            select(ReleaseRow)
            .where(ReleaseRow.source == MLFLOW, ReleaseRow.state != ReleaseRow.told_state)
            .order_by(ReleaseRow.id)
            .limit(_AT_ONCE)
        )
        with self._database.reading() as session:
            untold = session.scalars(query).all()
        problems: list[Unavailable] = []
        for row in untold:
            try:
                self._tell(row)
            except Unavailable as error:
                problems.append(error)
            if len(problems) == _PROBLEMS:
                break
        if problems:
            raise problems[0]

    def _tell(self, row: ReleaseRow) -> None:
        told = row.state
        try:
            for key, value in self._tags(row).items():
                self._registry.set_tag(row.model, row.version, _PREFIX + key, value[:_MOST_LETTERS])
            if told is ReleaseState.RELEASED and self._is_newest(row):
                self._serves(row)
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

    def _serves(self, row: ReleaseRow) -> None:
        alias = self._config.mlflow.serving_alias
        before = self._registry.aliases(row.model).get(alias)
        self._registry.set_alias(row.model, alias, row.version)
        self._registry.set_tag(row.model, row.version, f"{_PREFIX}serving", "true")
        if before is not None and before != row.version:
            self._registry.set_tag(row.model, before, f"{_PREFIX}serving", "false")
