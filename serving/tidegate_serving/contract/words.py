"""What somebody's code raised, in few words: bounded however long its texts, its chain of causes and its stack are, and
whatever its methods do.
"""

from __future__ import annotations

import reprlib
import stat
from collections import deque
from collections.abc import Iterator
from linecache import getline
from pathlib import Path
from traceback import walk_tb

_MOST_CHARACTERS = 2000
_MOST_IN_LINE = 300
_MOST_IN_TRACE = 16_000
_MOST_LINKS = 8
_MOST_FRAMES = 24
_MOST_PARTS = 5
_LARGEST_SOURCE = 4 << 20
_LINKS_TO_CAUSE = 1000
_name_of_class = type.__dict__["__name__"].__get__
_PLAIN = (BaseException.__str__, KeyError.__str__)
_LARGE = (str, bytes, bytearray, list, tuple, dict, set, frozenset)


class _Shortened(reprlib.Repr):
    """What is large is cut before it is written out."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = _MOST_CHARACTERS
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = 100

    def repr_bytes(self, value: bytes, level: int) -> str:
        """At most so many of them."""
        return repr(value[: self.maxstring])

    repr_bytearray = repr_bytes


_shortened = _Shortened()


def cut(text: str, most: int = _MOST_CHARACTERS) -> str:
    """At most so many characters of a text, as UTF-8 can say them."""
    kept = str.__getitem__(text, slice(most))
    kept = kept.encode("utf-8", "backslashreplace").decode()
    return kept if str.__len__(text) <= most else f"{kept}..."


def words_of(error: BaseException, most: int = _MOST_CHARACTERS) -> str:
    """Class and text of what was raised, at most so many of the text's characters."""
    return f"{_class_of(error)}: {text_of(error, most)}"


def text_of(error: BaseException, most: int = _MOST_CHARACTERS) -> str:
    """The text alone, at most its first so many characters."""
    try:
        return cut(_text(error), most)
    except BaseException as fault:  # the text is somebody's code too
        return f"(its text raised {_class_of(fault)})"


def trace_of(error: BaseException) -> str:
    """Where it was raised, and what it came from before it: much as Python prints it, but the last 24 frames of a stack
    alone, and at most 8 errors of a chain."""
    try:
        links = list(_chain(error))
        text = _told(links[-1][0])
        for (_, relation), (link, _) in zip(reversed(links), reversed(links[:-1]), strict=False):
            text += f"\n\n{relation}\n\n{_told(link)}"
        return text
    except BaseException as fault:  # what it has is somebody's code too
        return f"{words_of(error)} (its trace raised {_class_of(fault)})"


def place_of(error: BaseException) -> tuple[str, str, int]:
    """Class of what was raised first, and file and line where: the same for what fails again for the same reason."""
    for _ in range(_LINKS_TO_CAUSE):  # a chain may come back to itself
        if error.__cause__ is None:
            break
        error = error.__cause__
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    file, line = (trace.tb_frame.f_code.co_filename, trace.tb_lineno) if trace is not None else ("", 0)
    return _class_of(error), cut(file, _MOST_IN_LINE), line


def _class_of(error: BaseException) -> str:
    """The name of its class, whatever that says of itself."""
    return cut(_name_of_class(type(error)), _MOST_IN_LINE)


def _text(error: BaseException) -> str:
    """As `str`, but what Python itself would write out of large arguments is cut first."""
    args = error.args
    if type(error).__str__ not in _PLAIN or not any(isinstance(one, _LARGE) for one in args):
        return str(error)
    if len(args) > 1:
        return _shortened.repr(args)
    if isinstance(args[0], str) and not isinstance(error, KeyError):
        return args[0]
    return _shortened.repr(args[0])


def _chain(error: BaseException) -> Iterator[tuple[BaseException, str]]:
    """It and what it came from, each with how the one before came of it; one that comes back to itself ends there."""
    seen: set[int] = set()
    link: BaseException | None = error
    relation = ""
    while link is not None and id(link) not in seen and len(seen) < _MOST_LINKS:
        seen.add(id(link))
        yield link, relation
        if link.__cause__ is not None:
            link, relation = link.__cause__, "The above exception was the direct cause of the following exception:"
        else:
            relation = "During handling of the above exception, another exception occurred:"
            link = None if link.__suppress_context__ else link.__context__


def _where(error: BaseException) -> list[str]:
    """The last frames of its stack."""
    frames = deque(walk_tb(error.__traceback__), maxlen=_MOST_FRAMES)
    lines = ["Traceback (most recent call last):"] if frames else []
    for frame, number in frames:
        code = frame.f_code
        file, function = cut(code.co_filename, _MOST_IN_LINE), cut(code.co_name, _MOST_IN_LINE)
        lines.append(f'  File "{file}", line {number}, in {function}')
        if line := _line(code.co_filename, number):
            lines.append(f"    {line}")
    return lines


def _line(file: str, number: int) -> str:
    """Of a file that is one of source, by its size: code may say that it stands in any."""
    try:
        found = Path(file).stat()
    except (OSError, ValueError):
        return ""
    if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST_SOURCE:
        return ""
    return cut(getline(file, number).strip(), _MOST_IN_LINE)


def _told(error: BaseException) -> str:
    """Where it was raised, its words, and what was added to them: notes, and the words of those that it stands for."""
    notes = getattr(error, "__notes__", None)
    added = [cut(note) for note in notes[:_MOST_PARTS] if isinstance(note, str)] if isinstance(notes, list) else []
    if isinstance(error, BaseExceptionGroup):
        added += [f"  of which: {words_of(one)}" for one in error.exceptions[:_MOST_PARTS]]
    return "\n".join([*_where(error), words_of(error, _MOST_IN_TRACE), *added])
