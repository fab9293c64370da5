"""Backtests what a team already has: models in a folder, logged rows of months, labels if any. Nothing is changed.

No engine, no key: models that nobody published become versions in a folder that goes away.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.steps.infer_signature import PICKLES
from tidegate_operators.steps.judge import UnpublishedModels
from tidegate_serving.contract.errors import InvalidInput, NotFound, PermissionRefused
from tidegate_serving.contract.log_record import INPUT_PREFIX, OUTPUT_PREFIX, REQUEST_ID, ROLE, ROW, STATUS, Role
from tidegate_serving.contract.manifest import FILE_NAME, read_manifest
from tidegate_serving.files import require_writable
from tidegate_validation.evidence import Evidence
from tidegate_validation.progress import SILENT, Progress

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate_validation.backtest import Backtest, BacktestRule, PastRelease
    from tidegate_validation.policy import Policy

_DAY = re.compile(r"(\d{4}-\d{2}-\d{2})")
_MOST_LABELS = 0.9


@dataclass(frozen=True, slots=True)
class PastData:
    """What was served. Tables are given as `tidegate_validation.tables.as_table` takes them.

    logged: rows with a column per input, or the root folder of an inference log (`in.*`, `out.*` lose their prefix), of
    which the rows of the models' name count, those that clients were answered without an error.
    time: the column of the event's time; of an inference log `event_time`, else `received_at`, where it is left out.
    label: the column of the truth, None without labels.
    labels: labels apart, with the column `key`, `row` where a request has several, and `label`, and `at`, when each
    was found, where there is one. Rows of
    which a label came twice count by the newest, one that came for nothing counts for nothing.
    prediction: the column of what was answered; None asks the models again.
    """

    logged: Any
    time: str = ""
    label: str | None = None
    labels: Any = None
    key: str = REQUEST_ID
    prediction: str | None = None


@dataclass(frozen=True, slots=True)
class PastModels:
    """A folder of versions (ROOT/NAME), or of models, each a file or a folder.

    released: the day of each by the name of its folder or file; else the day in that name, else when the version was
    published or the file was written. platform, signature: of models whose name does not tell, see `judge`.
    """

    folder: Path | str
    released: Mapping[str, str] = field(default_factory=dict)
    platform: str | None = None
    signature: Path | str | None = None


def backtest(
    models: PastModels,
    data: PastData,
    *,
    policy: Path | Policy | None = None,
    rule: BacktestRule | None = None,
    report: Path | None = None,
    progress: Progress = SILENT,
) -> Backtest:
    """What the gates would have said; the page and its JSON go to `report`.

    NotFound or InvalidInput, naming file or column, for what cannot be read; PermissionRefused for pickles, unless the
    policy allows them.
    """
    from tidegate_validation.backtest import BacktestRule, History, write_backtest
    from tidegate_validation.backtest import backtest as run
    from tidegate_validation.evidence import open_policy

    if report is not None:
        require_writable(report)
    given = _models_in(Path(models.folder))
    table, time, own = _logged(data, models)
    rows = _with_labels(table, data)
    kept = [name for name in rows.column_names if name not in own or name in (time, data.label, data.prediction)]
    history = History.of(rows.select(kept), time, data.label, data.prediction)
    opened, rule = open_policy(Evidence(None, policy=policy)), rule or BacktestRule()
    if rule.delay is None:
        rule = replace(rule, delay=usual_delay(table, time, data))
    with tempfile.TemporaryDirectory(prefix="tidegate-backtest-") as scratch:
        _need_leave(given, allow_pickle=opened.robustness.allow_pickle)
        releases = _releases(models, history.table, data.label, Path(scratch))
        found = run(history, releases, opened, rule, progress)
    if report is not None:
        write_backtest(found, report)
    return found


def read_released(path: Path) -> dict[str, str]:
    """The days of releases from a table with the columns `version` and `released`."""
    from tidegate_validation.tables import as_table

    table = as_table(path, "days of releases")
    missing = [name for name in ("version", "released") if name not in table.column_names]
    if missing:
        raise InvalidInput(f"{path} has no column {missing[0]!r}: write version,released")
    rows = table.select(["version", "released"]).to_pylist()
    return {str(row["version"]): str(row["released"])[:10] for row in rows}


def _logged(data: PastData, models: PastModels) -> tuple[pa.Table, str, frozenset[str]]:
    """The rows, the column of their time, and the columns that are an inference log's own: no inputs or outputs."""
    from tidegate_serving.inference_log.reader import is_engine_log
    from tidegate_validation.tables import as_table

    root = Path(data.logged) if isinstance(data.logged, str | Path) else None
    if root is None or not is_engine_log(root):
        rows = as_table(data.logged, "logged rows")
        if not data.time:
            raise InvalidInput(
                "nothing says when a row was served: name the column of its time (--time), one of "
                f"{', '.join(rows.column_names)}"
            )
        return rows, data.time, frozenset()
    table = _answered(root, _model_of(root, Path(models.folder)))
    time = data.time or ("event_time" if table["event_time"].null_count == 0 else "received_at")
    names = [name.removeprefix(INPUT_PREFIX).removeprefix(OUTPUT_PREFIX) for name in table.column_names]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise InvalidInput(f"{sorted(doubled)[0]!r} is an input and an output of the log: give a table of one of them")
    own = frozenset(name for name in table.column_names if not name.startswith((INPUT_PREFIX, OUTPUT_PREFIX)))
    return table.rename_columns(names), time.removeprefix(INPUT_PREFIX), own


def _model_of(root: Path, folder: Path) -> str:
    """Whose rows of the log count: that of the versions, else the only model, else that of the folder's name."""
    from tidegate_serving.inference_log.reader import logged_models

    logged = logged_models(root)
    published = next((path for path in _models_in(folder) if (path / FILE_NAME).is_file()), None)
    if published is not None:
        return read_manifest(published)[0].id.name
    if len(logged) == 1 or folder.resolve().name in logged:
        return logged[0] if len(logged) == 1 else folder.resolve().name
    raise InvalidInput(
        f"the log {root} is of the models {', '.join(logged)}, and the models in {folder} do not say which they are: "
        "give the folder the name of theirs"
    )


def _answered(root: Path, model: str) -> pa.Table:
    """The rows of a model that clients were answered without an error, of the signature that gates judge, with the
    columns of all its files."""
    from tidegate_serving.inference_log.reader import connect, read_again
    from tidegate_validation.statistics.sql import quote
    from tidegate_validation.statistics.window import judged_rows

    def read() -> pa.Table:
        rows = judged_rows(connection, root, model, None)
        wanted = " AND ".join([f"{ROLE} = '{Role.PRIMARY.value}'", f"{STATUS} = 0", *rows.judged])
        columns = ", ".join(map(quote, rows.types))
        return connection.sql(f"SELECT {columns} FROM {rows.source} WHERE {wanted}").to_arrow_table()

    with connect(root) as connection:
        table: pa.Table = read_again(read)
    return table


def _with_labels(table: pa.Table, data: PastData) -> pa.Table:
    """The rows with labels from elsewhere, joined by key; of several for one key the newest, then the last, counts."""
    import pyarrow as pa

    from tidegate_validation.skew.labels import AT, has_moments
    from tidegate_validation.statistics.event_times import unix_seconds
    from tidegate_validation.tables import as_table

    if data.labels is None:
        return table
    if data.label is None:
        raise InvalidInput("labels were given and no label column: name the column that holds them")
    labels = as_table(data.labels, "labels")
    for name, where, has in (
        (data.key, "logged rows", table),
        (data.key, "labels", labels),
        (data.label, "labels", labels),
    ):
        if name not in has.column_names:
            raise InvalidInput(f"the {where} have no column {name!r}: they have {', '.join(has.column_names)}")
    named = _key_columns(table, labels, data)
    pairs = list(zip(_keys(labels, named), labels[data.label].to_pylist(), strict=True))
    if has_moments(labels):
        when = unix_seconds(labels, AT, "labels")
        pairs = [pairs[row] for row in sorted(range(len(pairs)), key=lambda row: (when[row] > -math.inf, when[row]))]
    newest, keys = dict(pairs), _keys(table, named)
    if pairs and keys and newest.keys().isdisjoint(keys):
        raise InvalidInput(
            f"no label has the {data.key!r} of a logged row: labels have such as {_told(pairs[0][0])}, rows such as "
            f"{_told(keys[0])}: name the column that both have (--key), or wait until labels of these rows have come"
        )
    found = pa.array([newest.get(key) for key in keys], labels[data.label].type)
    kept = table.drop_columns([data.label]) if data.label in table.column_names else table
    return kept.append_column(data.label, found)


def _key_columns(table: pa.Table, labels: pa.Table, data: PastData) -> list[str]:
    """The columns that rows and labels are joined by: `row` too, where both have it."""
    return [data.key, *([ROW] if ROW in table.column_names and ROW in labels.column_names else [])]


def _keys(table: pa.Table, names: Sequence[str]) -> list[tuple[str | None, ...]]:
    """What rows are joined by, as texts: a log's request ids are texts, and a file may have read them as numbers."""
    return list(zip(*(map(_as_text, table[name].to_pylist()) for name in names), strict=True))


def _told(key: Sequence[str | None]) -> str:
    return ", row ".join([repr(key[0]), *map(str, key[1:])])


def _as_text(key: Any) -> str | None:
    """The same for keys that are equal: 5, 5.0 and a decimal 5.00, true and 1, one moment in two zones."""
    if isinstance(key, Decimal):
        whole, _, places = f"{key:f}".partition(".")
        return f"{whole}.{places}".rstrip("0") if places.strip("0") else whole
    if isinstance(key, bool) or (isinstance(key, float) and key.is_integer()):
        return str(int(key))
    if isinstance(key, datetime) and key.tzinfo is not None:
        return str(key.astimezone(UTC))
    return None if key is None else str(key)


def usual_delay(table: pa.Table, time: str, data: PastData) -> int | None:
    """Within how many days nine in ten labels were known, by the labels' own times; None where these say nothing."""
    from tidegate_validation.backtest.history import days_of
    from tidegate_validation.skew.labels import AT, has_moments
    from tidegate_validation.statistics.blocks import SECONDS
    from tidegate_validation.statistics.event_times import unix_seconds
    from tidegate_validation.tables import as_table

    labels = None if data.labels is None else as_table(data.labels, "labels")
    if labels is None or not has_moments(labels):
        return None
    named = _key_columns(table, labels, data)
    served = dict(zip(_keys(table, named), days_of(table, time).tolist(), strict=True))
    first: dict[Any, int] = {}
    for key, moment in zip(_keys(labels, named), unix_seconds(labels, AT, "labels").tolist(), strict=True):
        if key in served and math.isfinite(moment):
            first[key] = min(int(moment // SECONDS), first.get(key, int(moment // SECONDS)))
    waited = sorted(max(0, day - served[key]) for key, day in first.items())
    return waited[math.ceil(_MOST_LABELS * len(waited)) - 1] if waited else None


def _releases(models: PastModels, sample: pa.Table, label: str | None, scratch: Path) -> list[PastRelease]:
    from tidegate_validation.backtest import PastRelease
    from tidegate_validation.backtest.history import day_number

    evidence = Evidence(held_out=sample, label=label)
    unpublished = UnpublishedModels(evidence, models.platform, models.signature, scratch)
    found = []
    for number, path in enumerate(_models_in(Path(models.folder)), start=1):
        day = day_number(_released(path, models.released))
        found.append(PastRelease(unpublished.version(path, number), path.name, day))
    return found


def _need_leave(models: Sequence[Path], *, allow_pickle: bool) -> None:
    """Says so before anything is judged where a model could not be loaded for want of a leave."""
    for model in models:
        for path in [model] if model.is_file() else sorted(model.rglob("*")):
            if not allow_pickle and path.suffix in (*PICKLES, ".pth"):
                raise PermissionRefused(
                    f"{path} is a pickle, which can run any code: give a policy with allow_pickle = true under "
                    "[robustness], where you trust it"
                )


def _models_in(folder: Path) -> Sequence[Path]:
    """Versions where there are any, else everything that may be a model. NotFound where the folder is none."""
    if not folder.is_dir():
        raise NotFound(f"{folder} is no folder: name the one that holds the versions, or the models")
    if (folder / FILE_NAME).is_file():
        raise InvalidInput(f"{folder} is one version: name the folder that holds all, {folder.absolute().parent}")
    inside = [path for path in folder.iterdir() if not path.name.startswith(".")]
    versions = [path for path in inside if (path / FILE_NAME).is_file()]
    return sorted(versions or inside, key=lambda path: (len(path.name), path.name) if versions else (0, path.name))


def _released(path: Path, told: Mapping[str, str]) -> date:
    named = told.get(path.name) or told.get(path.stem)
    in_name = _DAY.search(path.name)
    text = named or (in_name[1] if in_name else "")
    if not text and (path / FILE_NAME).is_file():
        text = read_manifest(path)[0].created_at[:10]
    if not text:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC).date()
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(f"{text!r} is no day on which {path.name} was released: write it like 2013-06-05") from error
