"""Skew reports, as `tidegate monitor` and `tidegate skew --report` write them, into windows by feature."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.releases.requests import know_model
from tidegate_pipelines.hub.store import Database, FeatureProfileRow, ModelRow, SkewWindowRow
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import InvalidInput, TidegateError, Unavailable
from tidegate_serving.contract.formats import check_format
from tidegate_serving.contract.servable import check_name

logger = logging.getLogger(__name__)
FILE = "skew.json"
WHOLE = ""
"""The feature of a window that is about the model as a whole."""
_NOTHING: Mapping[str, Any] = {"current": []}
_WORST = ("ERROR", "FAIL", "INCONCLUSIVE", "WARN", "PASS")


def read_reports(database: Database, folder: Path, known: set[str]) -> set[str]:
    """Keeps each report under `folder` that is not `known`; what was read. One that cannot be read is said once."""
    found: set[str] = set()
    for path in sorted(folder.glob(f"**/{FILE}")):
        if str(path) in known:
            continue
        try:
            keep_report(database, json.loads(path.read_text(encoding="utf-8")), str(path))
        except Unavailable:
            raise  # The database's, so the report is read again.
        except (ValueError, OSError) as error:
            logger.warning("skew report %s cannot be read: %s", path, error)
        except TidegateError as error:
            logger.warning("%s", error.message)
        found.add(str(path))
    return found


def keep_report(
    database: Database,
    report: Mapping[str, Any],
    where: str,
    kept: Callable[[Session, int], None] | None = None,
) -> int:
    """One row for each feature, and one for the model as a whole; how many were new. A window is kept once.

    `kept` is called last in their transaction. InvalidInput or Unsupported, naming `where`, for what is no skew report
    of one window.
    """
    check_format(report, kind="skew-report", version="1", where=where)
    try:
        model, version = check_name(str(report["model"])), int(report["version"])
        start, end = (times.from_text(report[key], f"{where}: {key}") for key in ("since", "until"))
        shares = _shares(report)
        rows = [_whole(report), *_features(report["findings"])]
        counted = int(report["rows"])
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"{where} is no skew report of one window ({error!r}): give it since and until") from error
    with_shares = [{**row, "shares": shares.get(row["feature"], _NOTHING)["current"]} for row in rows]
    with database.writing() as session:
        know_model(session, model, database.now(session))
        new = _keep(session, model, version, (start, end), counted, with_shares)
        _keep_profiles(session, model, version, shares)
        if kept is not None:
            kept(session, new)
    return new


def _keep(
    session: Session,
    model: str,
    version: int,
    window: tuple[datetime, datetime],
    counted: int,
    rows: list[dict[str, Any]],
) -> int:
    same = (
        SkewWindowRow.model == model,
        SkewWindowRow.version == version,
        SkewWindowRow.window_end == window[1],
    )
    known = set(session.scalars(select(SkewWindowRow.feature).where(*same)).all())
    new = [row for row in rows if row["feature"] not in known]
    for row in new:
        told = {"model": model, "version": version, "window_start": window[0], "window_end": window[1]}
        added = SkewWindowRow(**told, rows=counted, **row)
        session.add(added)
        if row["feature"] == WHOLE:
            _note_latest(session, added)
    return len(new)


def _note_latest(session: Session, window: SkewWindowRow) -> None:
    """Unless one that ended later is known: reports may be read in any order."""
    session.flush()
    model = session.get_one(ModelRow, window.model, with_for_update=True)
    known = None if model.last_window is None else session.get(SkewWindowRow, model.last_window)
    if known is None or (known.window_end, known.version) <= (window.window_end, window.version):
        model.last_window = window.id


def _keep_profiles(session: Session, model: str, version: int, shares: Mapping[str, Mapping[str, Any]]) -> None:
    """How each feature was spread in training, which the shares of its windows are looked at beside."""
    for feature, one in shares.items():
        document = {"labels": one["labels"], "shares": one["reference"]}
        session.merge(FeatureProfileRow(model=model, version=version, feature=feature, document=document))


def _shares(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Labels of bins, and shares of rows in training and in the window, by feature."""
    found = {}
    for feature, one in dict(report.get("shares") or {}).items():
        sides = {side: [round(float(share), 5) for share in one[side]] for side in ("reference", "current")}
        found[str(feature)[:255]] = {"labels": [str(label) for label in one["labels"]], **sides}
    return found


def _whole(report: Mapping[str, Any]) -> dict[str, Any]:
    return {"feature": WHOLE, "state": str(report["outcome"]), "effect": None, "cause": str(report["sentence"])}


def _features(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The worst finding of each feature."""
    worst: dict[str, dict[str, Any]] = {}
    for finding in findings:
        subject = str(finding["subject"])
        if not subject:
            continue
        known = worst.get(subject)
        if known is None or _WORST.index(finding["outcome"]) < _WORST.index(known["outcome"]):
            worst[subject] = finding
    return [
        {
            "feature": subject[:255],
            "state": one["outcome"],
            "effect": one.get("number"),
            "cause": str(one["sentence"]) if one["outcome"] != "PASS" else "",
        }
        for subject, one in worst.items()
    ]
