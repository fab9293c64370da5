"""Columns of free text, of which hardly any comes twice: measured as a few plain numbers.

As categories such texts say nothing, for all of them are new. Each is measured by how many characters and words it has,
and by which share of its characters are capitals, digits and none of ASCII's; ids by what kinds of characters they are
made of, which stay when ids grow longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate_validation.statistics.bins import CategoryBins
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sql import quote
from tidegate_validation.statistics.vectors import BLOCK, MOST_ROWS

if TYPE_CHECKING:
    import pyarrow as pa

CHARACTERS = "characters"
WORDS = "words"
CAPITALS = "capitals"
DIGITS = "digits"
FOREIGN = "beyond ASCII"
MADE_OF = "made of"
_HARDLY_TWICE = 0.5
_ALL_DISTINCT = 0.98
_KINDS = {"capitals": r"\p{Lu}", "small letters": r"\p{Ll}", "digits": "[0-9]", "blanks": r"\s"}
_SIGNS = r"[^\p{L}\p{M}\p{N}\s]"
_CLASSES = {CAPITALS: r"\p{Lu}", DIGITS: "[0-9]", FOREIGN: r"[^\x00-\x7F]"}


def is_free_text(feature: FeatureProfile) -> bool:
    """Whether most texts of training came once or twice."""
    return isinstance(feature.bins, CategoryBins) and feature.distinct > _HARDLY_TWICE * (
        feature.rows - feature.missing
    )


def is_id(feature: FeatureProfile, measures: pa.Table) -> bool:
    """Whether each row has a word of its own, as ids are: these may grow longer with time."""
    import pyarrow.compute as pc

    present = feature.rows - feature.missing
    words = pc.quantile(measures[WORDS], 0.5)[0].as_py()
    return feature.distinct >= _ALL_DISTINCT * present and (words is None or words <= 1)


def measured_texts(connection: Any, relation: str, block: str, column: str) -> pa.Table:
    """The measures of a column of `relation` (SQL text), float64, null where there is no text, with the block of each
    row; a repeatable sample where there are very many rows."""
    shares = [
        f"round(1 - length(regexp_replace(v, '{one}', '', 'g')) / length(v), 3) AS {quote(name)}"
        for name, one in _CLASSES.items()
    ]
    found: pa.Table = connection.sql(
        f"SELECT CAST(length(v) AS DOUBLE) AS {quote(CHARACTERS)}, "
        rf"CAST(len(regexp_extract_all(v, '\S+')) AS DOUBLE) AS {quote(WORDS)}, {', '.join(shares)}, {quote(BLOCK)} "
        f"FROM ({_texts(relation, block, column)})"
    ).to_arrow_table()
    return found


def measured_ids(connection: Any, relation: str, block: str, column: str) -> pa.Table:
    """The kinds of characters that each text of a column of `relation` (SQL text) is made of, in words, null where
    there is no text, with the block of each row; a repeatable sample where there are very many rows."""
    kinds = ", ".join(f"CASE WHEN regexp_matches(v, '{one}') THEN '{words}' END" for words, one in _KINDS.items())
    signs = f"array_to_string(list_sort(list_distinct(regexp_extract_all(v, '{_SIGNS}'))), ' ')"
    found: pa.Table = connection.sql(
        f"SELECT CASE WHEN v IS NOT NULL THEN concat_ws(', ', {kinds}, nullif({signs}, '')) END AS {quote(MADE_OF)}, "
        f"{quote(BLOCK)} FROM ({_texts(relation, block, column)})"
    ).to_arrow_table()
    return found


def _texts(relation: str, block: str, column: str) -> str:
    """SQL for the texts `v` of a column with the block of each."""
    return (
        f"SELECT nullif(CAST({quote(column)} AS VARCHAR), '') AS v, CAST({block} AS BIGINT) AS {quote(BLOCK)} "
        f"FROM {relation} USING SAMPLE reservoir({MOST_ROWS} ROWS) REPEATABLE (7)"
    )
