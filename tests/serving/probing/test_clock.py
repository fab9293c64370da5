"""A moved clock shows in whatever Python asks of the time, and changes nothing else. In processes of their own: what is
moved there stays so until the end."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

AHEAD = 400 * 86_400
NOW = """
import datetime, json, sys, time
import {first}
from tidegate_serving.probing import clock
before = time.time()
clock.move({ahead})
import pandas
clock.move_pandas()
from datetime import date, datetime as moment
{program}
"""


def run(program: str, first: str = "numpy") -> Any:
    """What a program prints, as JSON, whose clock is ahead; `first` is imported before it is moved."""
    source = NOW.format(ahead=AHEAD, program=program, first=first)
    return json.loads(subprocess.check_output([sys.executable, "-W", "error", "-c", source], text=True))


def test_every_way_to_ask_for_the_time_is_moved() -> None:
    asked = run("""
real = datetime.UTC
class Mine(moment):
    pass
days = dict(
    time=time.time(), nanoseconds=time.time_ns() / 1e9, gettime=time.clock_gettime(time.CLOCK_REALTIME),
    gettime_ns=time.clock_gettime_ns(time.CLOCK_REALTIME) / 1e9, localtime=time.mktime(time.localtime()),
    asctime=time.mktime(time.strptime(time.asctime())), ctime=time.mktime(time.strptime(time.ctime())),
    strftime=time.mktime(time.strptime(time.strftime("%Y %j %H"), "%Y %j %H")),
    now=moment.now().timestamp(), zoned=moment.now(real).timestamp(), today=moment.today().timestamp(),
    utcnow=moment.utcnow().replace(tzinfo=real).timestamp() if sys.version_info < (3, 12) else moment.now().timestamp(),
    date=(date.today() - date.fromtimestamp(before)).days * 86400 + before, derived=Mine.now().timestamp(),
    pandas=pandas.Timestamp.now().timestamp(), zoned_pandas=pandas.Timestamp.now("Europe/Berlin").timestamp(),
    today_pandas=pandas.Timestamp.today().timestamp(), gmtime=time.mktime(time.gmtime()) - time.timezone,
)
print(json.dumps({name: round((one - before) / 86400) for name, one in days.items()}))
""")
    assert asked == dict.fromkeys(asked, AHEAD // 86_400)
    assert len(asked) == 18


def test_dates_are_as_they_were() -> None:
    found = run("""
made = moment(2020, 2, 29, 12)
class Mine(moment):
    pass
same = datetime.timedelta(1) + moment.strptime("2020-02-28 12", "%Y-%m-%d %H")
checks = [
    made == same, type(made) is type(same) is moment.mro()[1], isinstance(same, moment), isinstance(made, date),
    issubclass(pandas.Timestamp, moment), not isinstance(made, Mine), isinstance(Mine.now(), Mine),
    pandas.Timestamp(made).to_pydatetime() == made, moment.fromisoformat("2020-02-29T12:00") == made,
    moment.combine(date(2020, 2, 29), datetime.time(12)) == made, time.gmtime(0).tm_year == 1970,
    time.strftime("%Y", (1999,) + (1,) * 8) == "1999",
    abs(time.monotonic() - time.clock_gettime(time.CLOCK_MONOTONIC)) < 9,
]
print(json.dumps(checks))
""")
    assert found == [True] * 13


def test_dates_and_their_classes_are_kept_sent_and_looked_up_as_they_were() -> None:
    found = run("""
import copy, functools, pickle
from pydantic import BaseModel
class Flight(BaseModel):
    departs: moment
    day: date
@functools.singledispatch
def kind(one):
    return "unknown"
kind.register(date)(lambda one: "date")
kind.register(moment)(lambda one: "moment")
flight, made = Flight(departs="2020-02-29T12:00", day="2020-02-29"), moment(2020, 2, 29, 12, tzinfo=datetime.UTC)
whole = [made, made.date(), moment, date]
checks = [
    flight.departs == moment(2020, 2, 29, 12), flight.day == date(2020, 2, 29), [kind(made), kind(made.date())],
    {moment: 1, date: 2}[type(made)], {type(made.date()): 3}[date], type(made) == moment, type(made) != date,
    all(pickle.loads(pickle.dumps(whole, version)) == whole for version in range(6)), copy.deepcopy(whole) == whole,
    type(pickle.loads(pickle.dumps(made))) is type(made), pickle.loads(pickle.dumps(made)).tzinfo == datetime.UTC,
]
print(json.dumps(checks))
""")
    assert found == [True, True, ["moment", "date"], 1, 3, True, True, True, True, True, True]


def test_a_native_library_that_was_imported_before_goes_by_the_moved_clock_too() -> None:
    assert run("print(json.dumps(round((pandas.Timestamp.now().timestamp() - before) / 86400)))", "pandas") == 400


def test_a_native_library_knows_moments_of_the_moved_clock_as_such() -> None:
    """Polars looks up the classes of `datetime` while it runs."""
    years = run("""
import polars
table = polars.DataFrame({"at": [moment.now()], "on": [date.today()]})
print(json.dumps([polars.select(polars.lit(moment.now()).dt.year()).item(), table["at"].dt.year().item(),
    table["on"].dt.year().item(), datetime.datetime.now().year, datetime.date(2020, 2, 29).year]))
""")
    (now, *others) = years
    assert others == [now, now, now, 2020]
    assert run("print(json.dumps((moment.now() - moment.fromtimestamp(before)).days))", "polars") == AHEAD // 86_400


def test_a_name_that_is_taken_from_the_module_by_a_star_is_moved() -> None:
    assert (
        run("""
exec("from datetime import *")
print(json.dumps(round((datetime.now().timestamp() - before) / 86400)))
""")
        == AHEAD // 86_400
    )


def test_functions_that_were_pickled_with_the_names_that_they_use_are_moved() -> None:
    """As MLflow keeps them: what reads a pickle asks `datetime` for its classes in native code, as polars does."""
    found = run("""
import pickle, threading
import polars
named = b"cdatetime\\ndatetime\\n."
loaded = [pickle.loads(named), pickle._loads(named)]
thread = threading.Thread(target=lambda: loaded.append(pickle.loads(named)))
thread.start()
thread.join()
days = [round((one.now() - one.fromtimestamp(before)).total_seconds() / 86400) for one in loaded]
print(json.dumps([*days, polars.select(polars.lit(moment.now()).dt.year()).item() == moment.now().year]))
""")
    assert found == [AHEAD // 86_400] * 3 + [True]
