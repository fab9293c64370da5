"""The labels of a canary in traffic, which come meanwhile, and whether a logged answer is another than its label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.steps.canary_log import is_logged
from tidegate_serving.contract.errors import InvalidInput, Unavailable
from tidegate_serving.contract.log_record import OUTPUT_PREFIX, REQUEST_ID, ROW, output_column
from tidegate_serving.contract.manifest import CLASSES
from tidegate_serving.contract.servable import ServableId
from tidegate_validation.canary.rule import CanaryRule
from tidegate_validation.statistics.sql import Family, family, text_literal

if TYPE_CHECKING:
    from tidegate_serving.inference_log.sides import Side

Named = Callable[[], tuple[Sequence[str], Sequence[str]]]
"""The classes of a version's columns in order, and those of the version it is compared with, as their manifests name
them; called where an answer cannot be read without them."""

_NEWEST_LABELS = """
    CREATE TEMP TABLE labels AS SELECT {names}, last(label ORDER BY {at} filename, file_row_number) AS label
    FROM {source} WHERE label IS NOT NULL GROUP BY {keys}
"""
"""Of several labels for one request, or one of its rows, that with the newest `at`, where there is one, then that of
the last file."""
_MOST_ANSWERS = 1000
"""Outputs of more different whole numbers are no places in classes."""
_LEAST_LABELLED = 10
"""Of texts on both sides, such as 0, 1, 2 and 3+, fewer may be numbers alone, or none, by chance."""


def read_labels(connection: Any, place: str) -> str:
    """Puts the labels that came into a table and tells the columns that rows are found by; nothing where none came.
    Where some labels name a row, one that does not is that of the first.

    Naming the labels: InvalidInput where they lack a column, Unavailable where a file cannot be read, which may only be
    half written.
    """
    from tidegate_serving.inference_log.reader import duckdb_module
    from tidegate_validation.skew.labels import AT

    files = _label_files(Path(place)) if place else []
    if not files:
        return ""
    names = ", ".join(text_literal(str(file)) for file in files)
    source = f"read_parquet([{names}], union_by_name = true, filename = true, file_row_number = true)"
    duckdb = duckdb_module()
    try:
        columns = [row[0] for row in connection.execute(f"DESCRIBE FROM {source}").fetchall()]
        if missing := [name for name in (REQUEST_ID, "label") if name not in columns]:
            raise InvalidInput(f"the labels {place} have no column {missing[0]!r}: they have {', '.join(columns[:-2])}")
        found_by = {REQUEST_ID: f"{REQUEST_ID}::VARCHAR"} | (
            {ROW: f"coalesce({ROW}::BIGINT, 0)"} if ROW in columns else {}
        )
        named = ", ".join(f"{value} AS {name}" for name, value in found_by.items())
        at = f'"{AT}" NULLS FIRST,' if AT in columns else ""
        keys = ", ".join(found_by)
        grouped = ", ".join(str(place) for place in range(1, len(found_by) + 1))
        connection.execute(_NEWEST_LABELS.format(names=named, at=at, source=source, keys=grouped))
    except duckdb.Error as error:
        why, _, _ = str(error).partition("\n")
        raise Unavailable(f"the labels {place} cannot be read ({why}): write them anew as Parquet") from error
    return keys


def _label_files(path: Path) -> list[Path]:
    """A file that has not come yet is waited for."""
    return sorted(path.glob("*.parquet")) if path.is_dir() else [path] if path.is_file() else []


def answers_two(log_root: Path, identity: ServableId, rule: CanaryRule) -> bool:
    """Whether the log has answers of two real numbers a row that labels are compared with, so that it takes the names
    of these columns; by its first answer."""
    from tidegate_serving.inference_log.compare import elements, is_real
    from tidegate_serving.inference_log.reader import connect, read_again
    from tidegate_serving.inference_log.sides import sides

    def read() -> bool:
        for (one,) in sides(connection, log_root, identity.name, (identity.version,)):
            for name, kind in one.outputs.items():
                judged = output_column(rule.quality_output) if rule.quality_output else name
                if name == judged and is_real(kind):
                    numbers = elements(f't."{name}"', kind)
                    query = f"SELECT len({numbers}) FROM {one.source} t WHERE t.status = 0 LIMIT 1"
                    if connection.execute(query).fetchone() == (2,):
                        return True
        return False

    if not is_logged(log_root, identity.name, (identity.version,)):
        return False
    with connect(log_root) as connection:
        return read_again(read)


def is_wrong(connection: Any, one: Side, keys: str, rule: CanaryRule, named: Named) -> str:
    """SQL for whether an answer `t` is not its label `l`, which is found by `keys`. A real number is a yes from 0.5 on;
    so is, of two a row, that of the yes, which is the second unless the version names its columns in another order."""
    from tidegate_serving.inference_log.compare import elements, is_real

    names = [output_column(rule.quality_output)] if rule.quality_output else list(one.outputs)
    if len(names) != 1 or names[0] not in one.outputs:
        known = ", ".join(name.removeprefix(OUTPUT_PREFIX) for name in one.outputs)
        raise InvalidInput(
            f"a canary's quality_output is {rule.quality_output!r}: name the output that labels are "
            f"compared with, one of {known}"
        )
    kind, output = one.outputs[names[0]], names[0].removeprefix(OUTPUT_PREFIX)
    numbers = elements(f't."{names[0]}"', kind)
    most = 2 if is_real(kind) else 1
    widest = connection.execute(f"SELECT max(len({numbers})) FROM {one.source} t").fetchone()[0] or 1
    if widest > most:
        raise InvalidInput(
            f"output {output!r} has {widest} values a row, of which none is the answer that labels are compared with: "
            "name one with a value a row as quality_output, or with the probabilities of no and yes"
        )
    if not is_real(kind):
        answer, kind = f"({numbers})[1]", kind.replace("[]", "")
        text = _class(connection, one, answer, kind, named)
        if text == _text(answer, kind):
            _check_comparable(connection, one, (text, kind), keys, output, rule)
        return f"{text} <> {_label(connection)}"
    if widest == 1:
        return f"(({numbers})[1]::DOUBLE >= 0.5) <> ({_yes_by_number(connection, rule, output)})"
    place, label = _yes_of_two(connection, rule, output, named)
    return f"(({numbers})[{place}]::DOUBLE >= 0.5) <> ({label})"


def _class(connection: Any, one: Side, answer: str, kind: str, named: Named) -> str:
    """SQL for the class that is answered, as text; whole numbers that are no labels count the version's classes, where
    labels are names of these."""
    text = _text(answer, kind)
    if family(kind) is not Family.INTEGER:
        return text
    answers = _distinct(connection, f"SELECT DISTINCT {text} FROM {one.source} t LIMIT {_MOST_ANSWERS + 1}")
    labels = _labels(connection)
    if answers <= labels or len(answers) > _MOST_ANSWERS:
        return text
    own, other = named()
    if not own or answers <= {*labels, *own, *other} or not labels & {*own, *other}:
        return text
    return f"coalesce([{', '.join(map(text_literal, own))}][{answer}::BIGINT + 1], {text})"


def _check_comparable(
    connection: Any, one: Side, answer: tuple[str, str], keys: str, output: str, rule: CanaryRule
) -> None:
    """InvalidInput where labels are names and answers, SQL and its type, numbers, or the other way round: none of them
    would be right, which would make any two versions equally good."""
    text, kind = answer
    answered = f"{one.source} t WHERE t.status = 0"
    labelled = f"{one.source} t JOIN labels l USING ({keys}) WHERE t.status = 0"
    found: list[Any] = []
    for value, rows in ((text, answered), (_label(connection), labelled)):
        number = f"TRY_CAST({value} AS DOUBLE) IS NOT NULL"
        query = f"SELECT bool_or({number}), bool_and({number}), any_value({value}), count({value}) FROM {rows}"
        found.append(connection.execute(f"{query} AND {value} IS NOT NULL").fetchone())
    (answers_some, answers_all, an_answer, _), (labels_some, labels_all, a_label, count) = found
    typed = family(kind).numeric or family(_label_kind(connection)).numeric
    if count < (1 if typed else _LEAST_LABELLED):
        return
    if (answers_all and not labels_some) or (labels_all and not answers_some):
        raise InvalidInput(
            f"label {str(a_label)!r} of {rule.labels} cannot be compared with answer {an_answer!r} of output "
            f"{output!r}, since one is a number and the other is not: write labels as the version answers, or publish "
            f"versions whose metadata {CLASSES!r} names the classes that their numbers count"
        )


def _yes_of_two(connection: Any, rule: CanaryRule, output: str, named: Named) -> tuple[int, str]:
    """Which of two numbers is that of the yes, from 1, and SQL for whether a label is one."""
    from tidegate_validation.quality.data.outputs import sorted_classes

    own, other = named()
    known = sorted_classes([*{*own, *other}])
    if not known:
        return 2, _yes_by_number(connection, rule, output)
    order, labels, yes = list(own or known), _labels(connection), known[-1]
    if len(known) != 2 or len(order) != 2:
        raise InvalidInput(
            f"output {output!r} has two values a row, and metadata {CLASSES!r} of the two versions "
            f"{', '.join(known)}: publish one whose {CLASSES!r} names the two classes of its columns"
        )
    if labels <= {*known}:
        return order.index(yes) + 1, f"{_label(connection)} = {text_literal(yes)}"
    if yes == "1":
        return order.index(yes) + 1, _yes_by_number(connection, rule, output)
    if labels <= {"0", "1"} and order == list(other or known):
        return 2, _yes_by_number(connection, rule, output)
    unknown = min(labels - {*known})
    raise InvalidInput(
        f"label {unknown!r} of {rule.labels} is no class of output {output!r}, whose columns are {', '.join(order)}: "
        "write one of these"
    )


def _yes_by_number(connection: Any, rule: CanaryRule, output: str) -> str:
    text = connection.execute("SELECT any_value(label) FROM labels WHERE TRY_CAST(label AS DOUBLE) IS NULL").fetchone()
    if text[0] is not None:
        raise InvalidInput(
            f"label {str(text[0])!r} of {rule.labels} is no number, and output {output!r} is one: write 0 or 1, or "
            "name the output with the class as quality_output"
        )
    return "l.label::DOUBLE >= 0.5"


def _labels(connection: Any) -> set[str]:
    return _distinct(connection, f"SELECT DISTINCT {_label(connection)} FROM labels l")


def _label(connection: Any) -> str:
    """SQL for a label as the name of a class."""
    return _text("l.label", _label_kind(connection))


def _label_kind(connection: Any) -> str:
    query = "SELECT column_type FROM (DESCRIBE labels) WHERE column_name = 'label'"
    return str(connection.execute(query).fetchone()[0])


def _distinct(connection: Any, query: str) -> set[str]:
    return {str(row[0]) for row in connection.execute(query).fetchall() if row[0] is not None}


def _text(value: str, kind: str) -> str:
    """SQL for a class as text, the same for 1, 1.0 and true, as the quality gate has it."""
    if family(kind) is Family.BOOLEAN:
        return f"({value})::INTEGER::VARCHAR"
    if family(kind) is not Family.FLOAT:
        return f"({value})::VARCHAR"
    number = f"({value})::DOUBLE"
    whole = f"abs({number}) < 1e15 AND trunc({number}) = {number}"
    return f"CASE WHEN {whole} THEN {number}::BIGINT::VARCHAR ELSE ({value})::VARCHAR END"
