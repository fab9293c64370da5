"""What kind of value a log holds, and values of one kind as a column."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBER, _LIST = "a number", "a list"
_BEYOND, _BROKEN, _SEVERAL = "a number beyond 64 bits", "text that is no Unicode", "a list of several kinds"
_NEVER = (_BEYOND, _BROKEN, _SEVERAL)
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1


def kind_of(value: Any) -> str | None:
    """The kind in words, None for nothing, which fits in anywhere."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, float):
        return _NUMBER
    if isinstance(value, int):
        return _NUMBER if _LEAST <= value <= _MOST else _BEYOND
    if isinstance(value, str):
        return "text" if value.isascii() or _is_unicode(value) else _BROKEN
    if isinstance(value, Mapping):
        return "an object" if _is_unicode(json.dumps(value, ensure_ascii=False)) else _BROKEN
    return _kind_of_list(value)


def usual_kind(votes: Counter[str]) -> str | None:
    """The kind of most, None where no kind can be kept."""
    kinds = [kind for kind, _ in votes.most_common() if kind not in _NEVER]
    if kinds and kinds[0] == _LIST:
        return next((kind for kind in kinds[1:] if kind.startswith(_LIST)), _LIST)
    return kinds[0] if kinds else None


def fits(kind: str, usual: str | None) -> bool:
    """Whether a value of this kind may stand in a column of the usual one."""
    return kind == usual or (kind == _LIST and usual is not None and usual.startswith(_LIST))


def as_column(values: Iterable[Any]) -> pa.Array:
    """Values of one kind as a column: whole numbers that no type of 64 bits holds together are floats, objects JSON."""
    import pyarrow as pa

    plain = [_plain(value) for value in values]
    try:
        return pa.array(plain)
    except (pa.ArrowException, OverflowError):
        return pa.array([_as_floats(value) for value in plain])


def _kind_of_list(values: Sequence[Any]) -> str:
    kinds = {kind_of(value) for value in values} - {None}
    if len(kinds) > 1:
        return _SEVERAL
    (kind,) = kinds or {None}
    return _LIST if kind is None else kind if kind in _NEVER else f"{_LIST} of values, each {kind}"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _as_floats(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_floats(one) for one in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
