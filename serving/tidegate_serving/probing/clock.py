"""Another date and hour for a model that is asked in a process of its own: answers that go by the clock differ there.

What Python code asks of `time`, `datetime` and pandas is moved; what native code asks the system is not, nor what a
library got of `datetime` while it was imported. Clocks that only measure how long something takes, such as
`time.monotonic`, go on as they are.
"""

from __future__ import annotations

import copyreg
import datetime
import opcode
import sys
import threading
import time
from functools import partial
from types import FrameType, ModuleType
from typing import Any

from tidegate_serving.probing.own_code import of_an_import

_DATE, _DATETIME = datetime.date, datetime.datetime
_NANOSECONDS = 1_000_000_000
_IN_PYTHON = frozenset({"LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM", "IMPORT_STAR", "CALL_INTRINSIC_1"})
"""What Python code does that asks a module for a name; native code asks while Python calls it, or adds, or iterates."""
_unpickled = threading.local()
"""`name` is what a pickle that is read in this thread is about to look up in `datetime`."""


def move(seconds: int) -> None:
    """Moves the clock of this process, before the model is imported; there is no way back."""
    now, now_ns, read, read_ns = time.time, time.time_ns, time.clock_gettime, time.clock_gettime_ns
    local, utc, words, of_struct, form = time.localtime, time.gmtime, time.ctime, time.asctime, time.strftime
    by = dict.fromkeys((time.CLOCK_REALTIME, getattr(time, "CLOCK_TAI", time.CLOCK_REALTIME)), seconds)
    moved = {
        "time": lambda: now() + seconds,
        "time_ns": lambda: now_ns() + seconds * _NANOSECONDS,
        "clock_gettime": lambda clock: read(clock) + by.get(clock, 0),
        "clock_gettime_ns": lambda clock: read_ns(clock) + by.get(clock, 0) * _NANOSECONDS,
        "localtime": lambda since=None: local(time.time() if since is None else since),
        "gmtime": lambda since=None: utc(time.time() if since is None else since),
        "ctime": lambda since=None: words(time.time() if since is None else since),
        "asctime": lambda *moment: of_struct(*(moment or (time.localtime(),))),
        "strftime": lambda how, *moment: form(how, *(moment or (time.localtime(),))),
    }
    for name, function in moved.items():
        setattr(time, name, function)
    datetime.__class__ = _Datetime
    sys.addaudithook(_note_unpickled)
    copyreg.pickle(_DATE, partial(_kept, _MovedDate))
    copyreg.pickle(_DATETIME, partial(_kept, _MovedDatetime))


def _kept(moved: Any, one: Any) -> tuple[Any, ...]:
    """How a date is pickled: what makes it and of what. The name of its own class leads to the one in its place now."""
    return moved, one.__reduce_ex__(4)[1]


def move_pandas() -> None:
    """Has pandas, where it is imported by now, go by the moved clock; its own is native."""
    stamp: Any = getattr(sys.modules.get("pandas"), "Timestamp", None)
    if stamp is not None:
        stamp.now = stamp.today = classmethod(_now_in_pandas)
        stamp.utcnow = classmethod(lambda cls: cls(time.time_ns(), tz="UTC"))


def _now_in_pandas(cls: Any, tz: Any = None) -> Any:
    return cls(_MovedDatetime.now()) if tz is None else cls(time.time_ns(), tz=tz)


class _Datetime(ModuleType):
    """The module `datetime`, whose classes make moved dates but for libraries that are imported, as native ones derive
    classes of their own from them, and for native code, which knows dates by the very class that they are of."""

    @property
    def date(self) -> type[datetime.date]:
        """Its class, or the one in its place."""
        return _MovedDate if _is_moved_for(sys._getframe(1), "date") else _DATE

    @property
    def datetime(self) -> type[datetime.datetime]:
        """Its class, or the one in its place."""
        return _MovedDatetime if _is_moved_for(sys._getframe(1), "datetime") else _DATETIME


def _is_moved_for(frame: FrameType, name: str) -> bool:
    """Whether what happens in this frame is Python code that asks, be it in a pickle, and no library while it is
    imported."""
    unpickled = vars(_unpickled).pop("name", "") == name
    in_python = opcode.opname[frame.f_code.co_code[frame.f_lasti]] in _IN_PYTHON
    return (in_python or unpickled) and not of_an_import(frame)


def _note_unpickled(event: str, arguments: tuple[Any, ...]) -> None:
    """Hears of what a pickle names, such as a function's globals: native code looks it up, for code in Python."""
    if event == "pickle.find_class" and arguments[0] == "datetime":
        _unpickled.name = arguments[1]


class _StandIn(type):
    """Of a class in another's place: whatever is of that one is of this one, and whoever looks for that one finds it;
    classes derived from it are as usual."""

    def __eq__(cls, other: object) -> bool:
        return cls is other or other is vars(cls).get("in_place_of", cls)

    def __hash__(cls) -> int:
        return type.__hash__(vars(cls).get("in_place_of", cls))

    def __instancecheck__(cls, one: object) -> bool:
        kind = vars(cls).get("in_place_of")
        return type.__instancecheck__(cls, one) if kind is None else isinstance(one, kind)

    def __subclasscheck__(cls, one: type) -> bool:
        kind = vars(cls).get("in_place_of")
        return type.__subclasscheck__(cls, one) if kind is None else issubclass(one, kind)


class _MovedDate(datetime.date, metaclass=_StandIn):
    """Makes what `datetime.date` does, but for its today."""

    __slots__ = ()
    in_place_of = _DATE

    def __new__(cls, *values: Any, **named: Any) -> Any:
        """A date as it always was, unless of a derived class."""
        return _DATE(*values, **named) if cls is _MovedDate else super().__new__(cls, *values, **named)

    @classmethod
    def today(cls) -> Any:
        """The moved clock's date."""
        return cls.fromtimestamp(time.time())


class _MovedDatetime(datetime.datetime, metaclass=_StandIn):
    """Makes what `datetime.datetime` does, but for its now."""

    __slots__ = ()
    in_place_of = _DATETIME

    def __new__(cls, *values: Any, **named: Any) -> Any:
        """A moment as it always was, unless of a derived class."""
        return _DATETIME(*values, **named) if cls is _MovedDatetime else super().__new__(cls, *values, **named)

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        """The moved clock's moment."""
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def today(cls) -> Any:
        """The moved clock's moment, without a time zone."""
        return cls.fromtimestamp(time.time())

    @classmethod
    def utcnow(cls) -> Any:
        """The moved clock's moment in UTC, without a time zone."""
        return cls.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)
