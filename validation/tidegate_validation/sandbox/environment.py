"""What a sandboxed process is told and may read: an environment without secrets, and the files that Python needs."""

from __future__ import annotations

import ctypes
import locale
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from importlib import util
from pathlib import Path

_SECRETS = ("KEY", "SECRET", "TOKEN", "PASSW", "CREDENTIAL", "AUTH")
_PASSWORD_INSIDE = re.compile(r"://[^/\s]*:[^/\s]*@")
_QUIET = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "ORT_DISABLE_TELEMETRY": "1",
}
"""Libraries that report to their makers unasked would be taken for a model that calls out."""
PLANTED_SECRET = "planted-3b1f9c2e7a64d058"
"""A secret of nobody's, in a variable whose name says so: whoever shows it shows all secrets that a server has. It is
the first of all, for long errors are cut."""
_PLANTED = {"SANDBOX_TOKEN": PLANTED_SECRET}
_HOME = "home"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process believes itself to be: `variables` are added to its environment, which has none of the names
    `without`, nor any that begins with one of `without_prefixes`; `passed_pids` are the process numbers that others
    have before it, where it has a namespace of processes; with `other_locale` it writes numbers and dates as another
    machine may. `clock_by` is by how many seconds its clock is ahead, where the model is given one of its own.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    without_prefixes: tuple[str, ...] = ()
    passed_pids: int = 0
    other_locale: bool = False
    clock_by: int | None = None


USUAL = Place()
ELSEWHERE = Place(
    {"HOSTNAME": "elsewhere", "USER": "elsewhere", "LOGNAME": "elsewhere", "TZ": "Etc/GMT-11", "ELSEWHERE": "1"},
    ("CI", "PYTHONHASHSEED"),
    ("AIRFLOW", "ARGO_", "CI_", "GITHUB_", "GITLAB_", "JENKINS_", "JPY_", "JUPYTER", "KFP_"),
    17,
    other_locale=True,
)
"""As on another machine of a fleet, where no orchestrator, notebook or CI runs, and nobody fixed Python's hash() of
texts. A process number that is higher by a prime differs by every other modulus too."""
_ELSEWHERE_HOURS = 11
_LATER_HOURS = range(366 * 24, 730 * 24)
_LOCALES = ("de_DE.UTF-8", "en_US.UTF-8", "C.UTF-8", "C")
_PACKAGES = ("tidegate_serving", "tidegate_validation", "tidegate_native")


def another_time(now: datetime) -> int:
    """Seconds from `now`, which has a time zone, to a moment of more than a year later in another half of the year and
    of the day, on a weekend where it was none, on an odd day where it was even: in UTC, and of that as much as there is
    from the clock here to a clock elsewhere.
    """
    utc, zone = now.astimezone(UTC), timezone(timedelta(hours=_ELSEWHERE_HOURS))

    def others(hours: int) -> tuple[int, int]:
        later = utc + timedelta(hours=hours)
        return _differences(utc, later), _differences(now, later.astimezone(zone))

    return 3600 * max(_LATER_HOURS, key=others)


def _differences(one: datetime, other: datetime) -> int:
    return sum(own != theirs for own, theirs in zip(_features(one), _features(other), strict=True))


def _features(moment: datetime) -> tuple[int, ...]:
    return (moment.month - 1) // 6, moment.weekday() // 5, moment.toordinal() % 2, moment.hour // 12


def environment(home: str, place: Place = USUAL) -> dict[str, str]:
    """This process's environment without what looks like a secret, but for a planted one; crashes leave their traceback
    in the log, and libraries are told not to report to their makers. `home` is the working folder; the user's home is a
    folder in it, so that what is written there can be told from what is written beside it; `place` adds and takes out
    its own.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not any(word in name.upper() for word in _SECRETS)
        and not _PASSWORD_INSIDE.search(value)
        and name not in place.without
        and not name.startswith(place.without_prefixes)
    }
    own = {"HOME": f"{home}/{_HOME}", "TMPDIR": home, "PYTHONFAULTHANDLER": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    if place.other_locale:
        own["LC_ALL"] = _locale_other_than(kept.get("LC_ALL") or kept.get("LANG") or "C")
    return {**_PLANTED, **kept, **_QUIET, **own, **place.variables}


def import_path() -> dict[str, str]:
    """The environment by which a child imports from where this process does."""
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if Path(path).is_absolute())}


def readable_paths(command: Sequence[str]) -> list[str]:
    """Files and folders that a command needs: this Python, what it imports, and what the command names."""
    found = [sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path(sys.executable).resolve().parent)]
    found += [path for path in sys.path if path]
    found += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    for name in _PACKAGES:
        spec = util.find_spec(name)
        if spec is not None and spec.origin is not None:
            found.append(str(Path(spec.origin).parents[1]))
    found += [word for word in command if word.startswith("/")]
    return [path for path in dict.fromkeys(found) if path.startswith("/") and Path(path).exists()]


def _locale_other_than(name: str) -> str:
    """The first that this machine has and that is not its own."""
    return next((one for one in _LOCALES if _plain(one) != _plain(name) and _has_locale(one)), "C")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("posix", "c")


def _has_locale(name: str) -> bool:
    """Asked of the C library, since Python's own setlocale() would change the locale of this whole process."""
    library = ctypes.CDLL(None)
    make, free = library.newlocale, library.freelocale
    make.argtypes, make.restype = (ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p), ctypes.c_void_p
    free.argtypes, free.restype = (ctypes.c_void_p,), None
    made = make(1 << locale.LC_NUMERIC, name.encode(), None)
    if made:
        free(made)
    return bool(made)
