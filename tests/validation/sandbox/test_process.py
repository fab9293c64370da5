"""A sandboxed process has its own user, files, network and processes, and is told about where one is missing.

Each test asks the kernel, from inside or from outside; commands are a few lines of Python in a real sandbox.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.support.eventually import eventually

from tidegate_validation.sandbox.environment import ELSEWHERE, another_time, environment, import_path
from tidegate_validation.sandbox.limits import SandboxLimits
from tidegate_validation.sandbox.process import SandboxedProcess
from tidegate_validation.sandbox.supervisor import supervise

LIMITS = SandboxLimits(memory_mb=600, most_threads=80, disk_mb=8, open_files=64)


@contextlib.contextmanager
def sandboxed(source: str, version: Path, limits: SandboxLimits = LIMITS) -> Iterator[SandboxedProcess]:
    child = SandboxedProcess([sys.executable, "-c", source], limits, version, variables=import_path())
    child.start()
    try:
        yield child
    finally:
        child.kill()
        child.stdin.close()
        child.stdout.close()


def said(source: str, version: Path, limits: SandboxLimits = LIMITS) -> dict[str, object]:
    """What a command printed as JSON, with `missing` for the words about limits."""
    with sandboxed(source, version, limits) as child:
        data = child.stdout.read()
        assert child.wait(10) == 0, child.log(2000)
        return {**json.loads(data), "missing": child.missing}


LOOK = """
import json, os, resource
def may(path, mode="r"):
    try:
        open(path, mode).close()
    except OSError as error:
        return type(error).__name__
    return "yes"
version = {version!r}
print(json.dumps({{
    "user": os.getuid(), "pid": os.getpid(), "home": os.getcwd(),
    "reads version": may(version + "/weights"), "writes version": may(version + "/more", "w"),
    "reads key": may({key!r}), "writes home": may("file", "w"), "writes tmp": may({common!r}, "w"),
    "sees": os.listdir({shared!r}) if os.path.isdir({shared!r}) else [],
    "environment": sorted(name for name in os.environ if name.startswith("PARCEL")),
    "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0], "processes": resource.getrlimit(resource.RLIMIT_NPROC)[0],
    "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
}}))
"""


@pytest.fixture
def version(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "models" / "1"
    directory.mkdir(parents=True)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder.is_relative_to(tempfile.gettempdir()):
            folder.chmod(folder.stat().st_mode | 0o055)  # another user, as whom a model may run, has to reach it
    (directory / "weights").write_bytes(b"1")
    key = tmp_path / "keys" / "validator.key"
    key.parent.mkdir()
    key.write_text("secret")
    key.chmod(0o600)
    yield directory
    common(directory).unlink(missing_ok=True)


def look(version: Path) -> str:
    root = version.parent.parent
    key = str(root / "keys" / "validator.key")
    return LOOK.format(version=str(version), key=key, shared=str(root), common=str(common(version)))


def common(version: Path) -> Path:
    """A file where everybody may write."""
    return Path("/tmp", f"tidegate-{version.parent.parent.name}")


def test_it_sees_its_version_and_its_home_and_nothing_private(version: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARCEL_TOKEN", "secret")
    monkeypatch.setenv("PARCEL_STORE", "s3://user:secret@host/bucket")
    monkeypatch.setenv("PARCEL_THREADS", "2")
    found = said(look(version), version)
    assert found["user"] != 0
    assert (found["reads version"], found["writes home"], found["writes tmp"]) == ("yes", "yes", "yes")
    assert found["writes version"] in ("OSError", "PermissionError")
    assert found["reads key"] in ("FileNotFoundError", "PermissionError")
    assert found["sees"] == ["models"], "only the way to the version"
    assert found["environment"] == ["PARCEL_THREADS"]
    assert (found["files"], found["processes"], found["core"]) == (64, 80, 0)
    assert not common(version).exists()


def test_a_version_that_only_its_owner_may_read_is_copied_for_the_sandbox(version: Path) -> None:
    (version / "weights").chmod(0o600)
    version.chmod(0o700)
    found = said(look(version), version)
    assert found["reads version"] == "yes"
    assert (version / "weights").stat().st_mode & 0o777 == 0o600


def test_without_namespaces_the_rest_still_holds_and_what_is_missing_is_said(version: Path) -> None:
    """As in a container that allows no namespaces; the interpreter may then be out of another user's reach."""
    found = said(look(version), version, replace(LIMITS, sandbox=False))
    assert found["reads version"] == "yes"
    assert (found["files"], found["core"]) == (64, 0)
    missing = " ".join(map(str, found["missing"]))  # type: ignore[call-overload]
    assert "shares processes and files" in missing
    if found["user"] == 0:
        assert "runs as root" in missing
        assert "watched only" in missing


CALL = """
import json, socket
def tried(address):
    try:
        socket.create_connection(address, 1)
    except OSError as error:
        return error.strerror
print(json.dumps({"far": tried(("192.0.2.8", 443)), "local": bool(socket.socketpair())}))
"""


@pytest.mark.parametrize("sandbox", [True, False], ids=["namespaces", "without"])
def test_the_network_is_out_of_reach(version: Path, sandbox: bool) -> None:
    found = said(CALL, version, replace(LIMITS, sandbox=sandbox))
    assert found["far"] == ("Network is unreachable" if sandbox else "Permission denied")
    assert found["local"] is True
    assert ("refused, but not counted" in str(found["missing"])) is not sandbox


@pytest.mark.parametrize("sandbox", [True, False], ids=["namespaces", "without"])
def test_what_flees_is_ended(version: Path, sandbox: bool) -> None:
    """A grandchild in a session of its own, whose parent has gone."""
    seconds = f"{random.randrange(10**8, 10**9)}"
    flee = f"import os; os.system('setsid sleep {seconds} >/dev/null 2>&1 &'); print(1, flush=True); os.read(0, 1)"
    with sandboxed(flee, version, replace(LIMITS, sandbox=sandbox)) as child:
        child.stdout.readline()
        eventually(lambda: bool(running(seconds)))
    assert not running(seconds)


@pytest.mark.parametrize("sandbox", [True, False], ids=["namespaces", "without"])
@pytest.mark.parametrize("status", [0, 3])
def test_what_stays_when_it_ended_well_is_told_and_what_ends_with_it_is_not(
    version: Path, sandbox: bool, status: int
) -> None:
    """After another end there is no wait for what may still go by itself: it is ended at once."""
    flee = (
        "import os, subprocess; os.system('setsid sleep 1000 >/dev/null 2>&1 &'); "
        "reader = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL); "
        f"os.read(0, 1); os._exit({status})"
    )
    with sandboxed(flee, version, replace(LIMITS, sandbox=sandbox)) as child:
        child.stdin.close()
        assert child.wait(20) == status
        assert child.left_behind(20) == ([] if status else ["sleep"])


def test_what_stays_is_not_waited_for_once_the_gate_has_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "_LEAVING_SECONDS", 5000.0)
    lifeline, held = os.pipe()
    os.close(held)
    with subprocess.Popen(["sleep", "5000"]) as stays:
        try:
            assert "sleep" in supervise._left_behind([lifeline])
        finally:
            stays.kill()
            os.close(lifeline)


SUPERVISE = """
import sys
from pathlib import Path
from tidegate_validation.sandbox.process import SandboxedProcess
from tidegate_validation.sandbox.limits import SandboxLimits
child = SandboxedProcess(["/bin/sleep", "{seconds}"], SandboxLimits(), Path({version!r}))
child.start()
print("up", flush=True)
sys.stdin.read()
"""


def test_everything_ends_when_its_supervisor_is_killed(version: Path) -> None:
    seconds = f"{random.randrange(10**8, 10**9)}"
    supervise = SUPERVISE.format(version=str(version), seconds=seconds)
    process = subprocess.Popen(
        [sys.executable, "-c", supervise], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    with process.stdout, process.stdin:
        assert process.stdout.readline() == b"up\n"
        eventually(lambda: bool(running(seconds)))
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    eventually(lambda: not running(seconds))


def test_a_flooded_log_is_counted_and_only_its_end_is_kept(version: Path) -> None:
    flood = "import sys\nfor _ in range(3000): sys.stderr.write('x' * 1000)\nsys.stderr.write('the end')"
    with sandboxed(flood, version) as child:
        assert child.wait(20) == 0
        eventually(lambda: child.log_bytes == 3_000_007)
        assert child.log(7) == "the end"
        assert len(child.log(10**9)) < 200_000


def test_faults_of_the_sandbox_are_tried_again_and_counted(version: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, tries = subprocess.Popen, []

    def fails_once(*args: object, **kwargs: object) -> object:
        tries.append(args)
        if len(tries) == 1:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return real(*args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", fails_once)
    with sandboxed("print('{}')", version) as child:
        assert child.wait(10) == 0
        assert child.faults == ["BlockingIOError: [Errno 11] Resource temporarily unavailable"]


def test_a_sandbox_that_keeps_root_says_so(version: Path) -> None:
    found = said(look(version), version, replace(LIMITS, other_user=False))
    expected = "runs as root, as it was told to" if os.geteuid() == 0 else "runs as the same user"
    assert expected in str(found["missing"])
    assert found["user"] == os.geteuid()
    assert found["writes version"] == "OSError", "read-only even for root"


INSIDE = """
import json, os, sys
from pathlib import Path
from tidegate_validation.sandbox.process import SandboxedProcess
from tidegate_validation.sandbox.limits import SandboxLimits
inner = SandboxedProcess([sys.executable, "-c", {look!r}], SandboxLimits(open_files=64), Path({version!r}))
inner.start()
print(json.dumps({{"outer": os.getuid(), "inner": json.loads(inner.stdout.read()), "words": inner.missing}}))
inner.kill()
"""


def test_a_user_who_is_not_root_gets_a_sandbox_too(version: Path) -> None:
    """The outer sandbox makes a user without rights; the inner one is that user's own."""
    source = INSIDE.format(look=look(version), version=str(version))
    found = said(source, version, replace(LIMITS, most_threads=400, memory_mb=2000))
    inner = found["inner"]
    assert isinstance(inner, dict)
    assert inner["user"] == found["outer"] != 0
    assert (inner["reads version"], inner["writes home"]) == ("yes", "yes")
    assert inner["writes version"] in ("OSError", "PermissionError")
    assert "same user" in str(found["words"])


def test_a_user_without_namespaces_is_said_to_share_all(version: Path) -> None:
    source = INSIDE.replace("open_files=64", "open_files=64, sandbox=False")
    source = source.format(look=look(version), version=str(version))
    found = said(source, version, replace(LIMITS, most_threads=400, memory_mb=2000))
    words = str(found["words"])
    assert "may read and write what that user may" in words
    assert "tries to reach the network are refused" in words


@pytest.mark.parametrize("word", ["Api_Key", "CLIENT_SECRET", "TOKEN", "PASSWD", "CREDENTIALS", "BASIC_AUTH"])
def test_secrets_stay_out_of_the_environment(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"PARCEL_{word}", "hidden")
    monkeypatch.setenv("PARCEL_THREADS", "2")
    kept = environment("/home/of/it")
    assert (kept["HOME"], kept["TMPDIR"]) == ("/home/of/it/home", "/home/of/it")
    assert {name: value for name, value in kept.items() if name.startswith("PARCEL")} == {"PARCEL_THREADS": "2"}


def test_another_machine_has_no_orchestrator(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"AIRFLOW_HOME": "/opt/airflow", "CI": "true", "CI_JOB_ID": "3", "CITY_TABLE": "cities.csv"}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    assert told.items() <= environment("/home/of/it").items()
    elsewhere = environment("/home/of/it", ELSEWHERE)
    assert told.keys() & elsewhere.keys() == {"CITY_TABLE"}
    assert elsewhere["HOSTNAME"] == "elsewhere"


@pytest.mark.parametrize("own", ["", "C", "POSIX", "C.UTF-8", "en_US.utf8", "de_DE.UTF-8"])
def test_another_machine_writes_numbers_otherwise_and_has_other_hashes(
    own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", own)
    monkeypatch.setenv("LANG", own)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    elsewhere = environment("/home/of/it", ELSEWHERE)
    assert alike(elsewhere["LC_ALL"]) != alike(own or "C")
    command = [sys.executable, "-c", "import locale; locale.setlocale(locale.LC_ALL, '')"]
    subprocess.run(command, env={"LC_ALL": elsewhere["LC_ALL"]}, check=True)
    assert "PYTHONHASHSEED" not in elsewhere


def alike(name: str) -> str:
    return name.lower().replace("-", "").replace("posix", "c")


def test_libraries_do_not_report_to_their_makers() -> None:
    """What onnxruntime reports after half a minute would be taken for a model that calls out."""
    assert environment("/home/of/it")["ORT_DISABLE_TELEMETRY"] == "1"


def running(argument: str) -> list[str]:
    """Processes of this machine with that argument."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if argument.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                found.append(process.name)
    return found


FEATURES: dict[str, Callable[[datetime], bool]] = {
    "half of the year": lambda moment: moment.month > 6,
    "weekend": lambda moment: moment.weekday() > 4,
    "odd day": lambda moment: moment.toordinal() % 2 == 1,
    "half of the day": lambda moment: moment.hour > 11,
}


@pytest.mark.parametrize("hours", range(0, 24 * 365, 1999))
@pytest.mark.parametrize("zone", [-10, 0, 5.5, 9])
def test_another_time_differs_in_whatever_answers_may_go_by(hours: int, zone: float) -> None:
    now = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=zone))) + timedelta(hours=hours)
    later = now.astimezone(UTC) + timedelta(seconds=another_time(now))
    elsewhere = later.astimezone(timezone(timedelta(hours=11)))
    assert [name for name, feature in FEATURES.items() if feature(now.astimezone(UTC)) == feature(later)] == []
    assert len([name for name, feature in FEATURES.items() if feature(now) == feature(elsewhere)]) <= 2
    assert later.year > now.year
