"""What the registry wants, against what the hub knew that it wants: each change becomes one request for a release."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.registry.mlflow_rest import MlflowRegistry, Wanted
from tidegate_pipelines.hub.releases.fetch import MLFLOW
from tidegate_pipelines.hub.releases.requests import Request, finish, request_release
from tidegate_pipelines.hub.store import Database, RegisteredModelRow, ReleaseRow, ReleaseState
from tidegate_serving.contract.errors import InvalidInput

logger = logging.getLogger(__name__)
REGISTRY = "mlflow"
"""The registry's name in the tables."""


class Reconciler:
    """Compares and asks. Several hubs may do so at once: each change is seen by one of them."""

    def __init__(self, config: HubConfig, database: Database, registry: MlflowRegistry) -> None:
        self._config = config
        self._database = database
        self._registry = registry
        self._complaints: set[str] = set()

    def all(self) -> int:
        """Looks at every model; how many releases were asked for. Unavailable where the registry does not answer."""
        wanted = self._registry.wanted()
        with self._database.reading() as session:
            known = session.scalars(select(RegisteredModelRow).where(RegisteredModelRow.registry_name == REGISTRY))
            seen = {row.model: row for row in known}
        changed = [name for name in wanted.keys() | seen.keys() if _differs(seen.get(name), wanted.get(name))]
        return self.some(sorted(changed))

    def some(self, models: Iterable[str]) -> int:
        """Looks at these models alone."""
        return sum(map(self._look, models))

    def _look(self, model: str) -> bool:
        try:
            return self._one(model, self._registry.wanted_of(model))
        except InvalidInput as error:
            if model not in self._complaints:
                logger.warning("%s of the registry cannot be released: %s", model, error.message)
            self._complaints.add(model)
            return False

    def _one(self, model: str, wanted: Wanted | None) -> bool:
        try:
            with self._database.writing() as session:
                return self._note(session, model, wanted)
        except IntegrityError:
            return False  # Another hub saw it first.

    def _note(self, session: Session, model: str, wanted: Wanted | None) -> bool:
        now = self._database.now(session)
        row = session.get(RegisteredModelRow, (REGISTRY, model), with_for_update=True)
        if row is None:
            row = RegisteredModelRow(registry_name=REGISTRY, model=model, version=None, changed_at=now, seen_at=now)
            row.changes = 0
            session.add(row)
        row.seen_at = now
        if not _differs(row, wanted):
            return False
        anew = wanted is not None and row.version == wanted.version
        row.version, row.registered_at = wanted or (None, None)
        row.changed_at, row.changes = now, row.changes + 1
        session.flush()
        if wanted is None:
            self._take_back(session, model, now)
            return False
        return self._ask(session, row, wanted.version, " of a model that was registered anew" if anew else "")

    def _ask(self, session: Session, row: RegisteredModelRow, version: int, of: str) -> bool:
        mlflow = self._config.mlflow
        what = f"tag {mlflow.tag}" if mlflow.tag else f"alias {mlflow.alias}"
        request = Request(
            model=row.model,
            version=version,
            source=MLFLOW,
            requested_by="mlflow",
            reason=f"{what} is on version {version}{of}",
            key=f"{REGISTRY}:{row.model}:{row.changes}",
        )
        try:
            request_release(self._database, session, request)
        except InvalidInput as error:
            logger.warning("%s of the registry cannot be released: %s", row.model, error.message)
            return False
        return True

    def _take_back(self, session: Session, model: str, now: datetime) -> None:
        waiting = select(ReleaseRow).where(
            ReleaseRow.model == model,
            ReleaseRow.source == MLFLOW,
            ReleaseRow.state.in_((ReleaseState.REQUESTED, ReleaseState.WAITING)),
        )
        for release in session.scalars(waiting.with_for_update(key_share=True)).all():
            why = f"the registry wants no version of {model} any more"
            finish(session, release, now, ReleaseState.SUPERSEDED, why)


def _differs(row: RegisteredModelRow | None, wanted: Wanted | None) -> bool:
    seen = None if row is None or row.version is None else (row.version, row.registered_at)
    return seen != wanted


def no_longer_wanted(config: HubConfig, release: ReleaseRow) -> str:
    """Why a release that the registry asked for is not wanted any more, as a sentence; empty where it still is.

    Asked before each attempt, so that one that waited long, or comes out of a backup, takes no newer version away.
    """
    if release.source != MLFLOW:
        return ""
    registry = MlflowRegistry(config.mlflow)
    try:
        wanted = registry.wanted_of(release.model)
    finally:
        registry.close()
    if wanted is not None and wanted.version == release.version:
        return ""
    version = "no version" if wanted is None else f"version {wanted.version}"
    return f"the registry wants {version} of {release.model} by now"
