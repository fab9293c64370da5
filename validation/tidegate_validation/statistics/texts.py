"""Columns of free text, of which hardly any comes twice: measured as a few plain numbers.

As categories such texts say nothing, for all of them are new. Each is measured by how many characters and words it has,
and by which share of its characters are capitals, digits and none of ASCII's; single words, as numbers with a decimal
point are, also by what kinds of characters they are made of, and ids by these alone, which stay when ids grow longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tidegate_validation.statistics.bins import CategoryBins, NumericBins
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sql import Family, quote
from tidegate_validation.statistics.vectors import BLOCK, MOST_ROWS

if TYPE_CHECKING:
    import pyarrow as pa

CHARACTERS = "characters"
WORDS = "words"
CAPITALS = "capitals"
DIGITS = "digits"
FOREIGN = "beyond ASCII"
MADE_OF = "made of"
LAST_CHARACTER = "last character"
WHOLE_IN_FLOATS = 2.0**53
"""Beyond it 64-bit floats hold no odd numbers."""
_HARDLY_TWICE = 0.5
_ALL_DISTINCT = 0.98
_KINDS = {"capitals": r"\p{Lu}", "small letters": r"\p{Ll}", "digits": "[0-9]", "blanks": r"\s"}
_SIGNS = r"[^\p{L}\p{M}\p{N}\s]"
_CLASSES = {CAPITALS: r"\p{Lu}", DIGITS: "[0-9]", FOREIGN: r"[^\x00-\x7F]"}
_OF_TEXTS = (CHARACTERS, WORDS, *_CLASSES)
OF_IDS = (MADE_OF, LAST_CHARACTER)
"""Ids grow longer with time."""


def _made_of() -> str:
    """SQL for the kinds of characters that a text is made of, in words."""
    kinds = ", ".join(f"CASE WHEN regexp_matches(v, '{one}') THEN '{words}' END" for words, one in _KINDS.items())
    signs = f"array_to_string(list_sort(list_distinct(regexp_extract_all(v, '{_SIGNS}'))), ' ')"
    return f"CASE WHEN v IS NOT NULL THEN concat_ws(', ', {kinds}, nullif(replace({signs}, ',', 'comma'), '')) END"


_SQL = {
    CHARACTERS: "CAST(length(v) AS DOUBLE)",
    WORDS: r"CAST(len(regexp_extract_all(v, '\S+')) AS DOUBLE)",
    **{
        name: f"round(1 - length(regexp_replace(v, '{one}', '', 'g')) / length(v), 3)" for name, one in _CLASSES.items()
    },
    MADE_OF: _made_of(),
    LAST_CHARACTER: "right(v, 1)",
}
"""Measures of a text `v`."""


def is_free_text(feature: FeatureProfile) -> bool:
    """Whether most texts of training came once or twice."""
    return isinstance(feature.bins, CategoryBins) and feature.distinct > _HARDLY_TWICE * (
        feature.rows - feature.missing
    )


def telling_measures(connection: Any, relation: str, block: str, feature: FeatureProfile) -> tuple[str, ...]:
    """The measures that tell of a column of free text: each row may have a word of its own, as ids are, which may grow
    longer with time."""
    import pyarrow.compute as pc

    words = pc.quantile(measured_texts(connection, relation, block, feature.name, (WORDS,))[WORDS], 0.5)[0].as_py()
    if words is not None and words > 1:
        return _OF_TEXTS
    return OF_IDS if _all_distinct(feature) else (*_OF_TEXTS, MADE_OF)


def is_whole_id(feature: FeatureProfile) -> bool:
    """Whether whole numbers are ids by what they are: hardly any came twice in training, or they are larger than floats
    can tell apart."""
    largest = max(abs(feature.minimum or 0.0), abs(feature.maximum or 0.0))
    return (
        feature.family is Family.INTEGER
        and isinstance(feature.bins, NumericBins)
        and (_all_distinct(feature) or largest >= WHOLE_IN_FLOATS)
    )


def _all_distinct(feature: FeatureProfile) -> bool:
    return feature.distinct >= _ALL_DISTINCT * (feature.rows - feature.missing)


def measured_texts(
    connection: Any, relation: str, block: str, column: str, names: Iterable[str], *, whole: bool = False
) -> pa.Table:
    """The measures with these `names` of a column of `relation` (SQL text), null where there is no text, with the block
    of each row; a repeatable sample where there are very many rows. Of `whole` numbers their digits are the text."""
    measures = ", ".join(f"{_SQL[name]} AS {quote(name)}" for name in names)
    found: pa.Table = connection.sql(
        f"SELECT {measures}, {quote(BLOCK)} FROM ({_texts(relation, block, column, whole)})"
    ).to_arrow_table()
    return found


def _texts(relation: str, block: str, column: str, whole: bool) -> str:
    """SQL for the texts `v` of a column with the block of each."""
    value = f"TRY_CAST({quote(column)} AS HUGEINT)" if whole else quote(column)
    return (
        f"SELECT nullif(CAST({value} AS VARCHAR), '') AS v, CAST({block} AS BIGINT) AS {quote(BLOCK)} "
        f"FROM {relation} USING SAMPLE reservoir({MOST_ROWS} ROWS) REPEATABLE (7)"
    )
