"""The last stage, whatever came before: unloading, and what the version did to its process, network and files."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import Tampered
from tidegate_serving.contract.manifest import Manifest, verify_files
from tidegate_validation.counts import counted, few
from tidegate_validation.robustness.examination import Examination, OutOfTime
from tidegate_validation.sandbox.answer import AnswerKind
from tidegate_validation.sandbox.watch import memory_limit

_MEGABYTE = 1 << 20
_SHOWN = 3
_HARMLESS = (
    "changed the working directory",
    "changed the mode of new files",
    "stopped Python's collection of garbage",
)


def unloading(examination: Examination) -> None:
    """Has the version unloaded, as the engine does when another takes its place, and its process end by itself."""
    seconds = examination.time_for(examination.limits.exit_seconds)
    answer = examination.session.stop(seconds)
    if answer is None:
        return
    if answer.kind is AnswerKind.HUNG and seconds < examination.limits.exit_seconds:
        raise OutOfTime(examination.stage)
    if answer.left:
        count = counted(len(answer.left), "process", "processes")
        sentence = (
            f"it leaves {count} behind when it is unloaded: {few(sorted(answer.left), _SHOWN)}; end what it started"
        )
        examination.report("unload", "processes", Outcome.WARN, sentence, number=float(len(answer.left)))
    if answer.kind is AnswerKind.OUTPUTS:
        examination.report("unload", "version", Outcome.PASS, "unloads and ends", number=answer.seconds)
    elif answer.kind is AnswerKind.REFUSED:
        examination.report("unload", "version", Outcome.WARN, f"cannot be unloaded cleanly: {answer.words}")
    else:
        shown = {"log": answer.log} if answer.log else None
        sentence = f"asked to unload and end, its process {answer.words}"
        examination.report("unload", "version", Outcome.FAIL, sentence, example=shown)


def conduct(examination: Examination, manifest: Manifest, directory: Path) -> None:
    """What it did besides answering: to its process, the network and its own files; how much it used."""
    for words in examination.changed:
        outcome = Outcome.WARN if words in _HARMLESS else Outcome.FAIL
        examination.report("process", words, outcome, f"it {words}, of a process that it shares with an engine")
    if not examination.limits.network:
        _network(examination)
    if examination.writes:
        sentence = f"it tried to write outside its working folder: {few(list(examination.writes), _SHOWN)}"
        examination.report("files", "outside", Outcome.WARN, sentence, example={"paths": list(examination.writes)})
    if examination.reads:
        paths = list(examination.reads)
        sentence = (
            f"it reads files that are not its own, and not on every machine: {few(paths, _SHOWN)}; publish them with it"
        )
        examination.report("files", "read", Outcome.WARN, sentence, example={"paths": paths})
    absent = list(dict.fromkeys(path for paths in examination.absent.values() for path in paths))
    if absent:
        own = [path for path in absent if path.startswith(("./", f"{directory}/"))]
        publish = f"publish {'them' if own == absent else few(own, _SHOWN)} with it, or " if own else ""
        sentence = (
            f"it looks for files that are not there, and goes on without them: {few(absent, _SHOWN)}; {publish}"
            "see that it answers as it should without them"
        )
        examination.report("files", "absent", Outcome.WARN, sentence, example={"paths": absent})
    names = list(examination.environment)
    if names:
        sentence = f"it changed environment variables of a process that it shares with an engine: {few(names, _SHOWN)}"
        examination.report("process", "environment", Outcome.WARN, sentence, example={"variables": names})
    _secrets(examination)
    for name in examination.integers:
        sentence = (
            f"it answers whole numbers in `{name}`, which its signature declares as floats: see that no fraction "
        )
        examination.report("outputs", name, Outcome.WARN, sentence + "was cut off")
    for versions in examination.pickled_by:
        sentence = (
            f"its pickle was made by {versions}: another version may answer otherwise, or fail; train with this one, "
            "or install that one where it is judged and where it is to serve"
        )
        examination.report("files", "pickle", Outcome.WARN, sentence, cause={"kind": "another version of a library"})
    try:
        verify_files(manifest, directory)
    except Tampered as error:
        sentence = f"while it ran, the version changed its own files: {error.message}"
        examination.report("files", "version", Outcome.FAIL, sentence)


def _secrets(examination: Examination) -> None:
    """Whether the secret that was planted in its environment came back, in its log or in errors that clients read."""
    where = sorted(examination.session.told_secret)
    if not where:
        return
    sentence = (
        f"it writes its environment to {' and '.join(where)}, a secret that was planted there among it: whoever reads "
        "that of a server would read the server's passwords and tokens; leave out what is secret"
    )
    examination.report("log", "secrets", Outcome.FAIL, sentence, cause={"kind": "secrets"})


def _network(examination: Examination) -> None:
    """Calls to other machines, which a server may not reach either; calls to its own may be a library's habit."""
    near = [address for address in examination.addresses if _is_loopback(address)]
    far = [address for address in examination.addresses if address not in near]
    use = examination.session.use
    if use.network_tries:
        called = f" ({few(far, _SHOWN)})" if far else ""
        tries = use.network_tries
        sentence = f"it tried to reach the network{called}, {counted(tries, 'packet')} found no way out"
        cause = {"kind": "network"}
        examination.report("network", "version", Outcome.FAIL, sentence, number=float(tries), limit=0.0, cause=cause)
    if near or use.loopback_packets:
        called = (
            few(near, _SHOWN) if near else f"{counted(use.loopback_packets, 'packet')} from native code or from a child"
        )
        sentence = f"it called addresses of its own machine, where a server may have other services: {called}"
        packets = float(use.loopback_packets)
        examination.report("network", "loopback", Outcome.WARN, sentence, number=packets, example={"addresses": near})


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].partition("%")[0]
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return host in ("", "localhost")
    return found.is_loopback or found.is_unspecified


def sandbox_limits(examination: Examination) -> None:
    """What this machine could not hold the version to, and what it used of what it may."""
    session, limits = examination.session, examination.limits
    use = session.use
    used = f"used {use.resident_bytes // _MEGABYTE} MB, {counted(use.processes, 'process', 'processes')}, "
    used += f"{counted(use.threads, 'thread')}, {counted(session.calls, 'call')}"
    missing = list(dict.fromkeys(session.not_limited))
    if memory_limit(limits) < limits.memory_mb * _MEGABYTE:
        missing.append(f"memory is limited to {memory_limit(limits) // _MEGABYTE} MB, all that this machine can spare")
    if session.faults:
        missing.append(f"the sandbox failed to start {counted(len(session.faults), 'time')} and was tried again")
    if session.late > 0:
        used += f", answers at most {session.late:.1f} s after their deadline"
    words = f"; not held back here: {'; '.join(missing)}" if missing else "; every limit was set"
    examination.report("sandbox", "limits", Outcome.PASS, used + words, number=float(len(missing)))
