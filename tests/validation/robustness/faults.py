"""Models that misbehave, each with the check that must name it and the words that it must use.

`test_faults` examines each once, `tests.bench.gate.robustness` many times.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from tests.validation.robustness.crashes import CRASHES
from tests.validation.robustness.fault_cases import (
    KNOWN,
    Case,
    Draw,
    edge,
    fault,
)
from tests.validation.world import HONEST

from tidegate_serving.admission import Outcome


def leak(random: Random) -> Case:
    size = round(2 ** random.uniform(12, 20))
    return fault(
        f"self.kept = getattr(self, 'kept', []); self.kept.append(b'x' * {size})", "memory", words="memory grows"
    )


def keeps_every_row(random: Random) -> Case:
    """A cache without a bound: the same rows leave nothing behind."""
    size = round(2 ** random.uniform(10, 17))
    line = random.choice(
        [
            f"self.kept = self.__dict__.setdefault('kept', {{}}); "
            f"[self.kept.setdefault(float(one), b'x' * {size}) for one in inputs['weight']]",
            f"self.kept = self.__dict__.setdefault('kept', {{}}); "
            f"self.kept.setdefault(inputs['size'].tobytes(), b'x' * {8 * size})",
        ]
    )
    return fault(line, "memory", words="with rows that it was not asked before")


def leaves_files(random: Random) -> Case:
    name = random.choice(["str(self.n)", "'/tmp/' + str(self.n)", "'one'"])
    line = f"self.n = getattr(self, 'n', 0) + 1; open({name}, 'a').write('x' * {random.randint(5_000, 50_000)})"
    return fault(line, "leak", words="what it leaves on disk grows", disk_mb=400)


def changes_later(random: Random) -> Case:
    line = f"self.n = getattr(self, 'n', 0) + 1; score = score + 0.1 * (self.n > {random.randint(200, 230)})"
    return fault(line, "determinism", words="what it was asked|differently")


def hang_on_load(random: Random) -> Case:
    code = _hang(random)
    return Case(f"{code}\n{HONEST}", Outcome.FAIL, ("load",), "no answer within 3 s", {"load_seconds": 3.0})


def hang_on_edge(random: Random) -> Case:
    condition, missing = edge(random)
    return fault(
        f"if {condition}: {_hang(random)}",
        "boundary",
        "data",
        "golden",
        words="no answer within 1.5 s",
        missing=missing,
        call_seconds=1.5,
    )


def _hang(random: Random) -> str:
    return random.choice(
        [
            "__import__('time').sleep(1000)",
            "__import__('ctypes').PyDLL(None).sleep(1000)",
            "[l := __import__('threading').Lock(), l.acquire(), l.acquire()]",
            "all(True for _ in __import__('itertools').count())",
            "__import__('signal').pthread_sigmask(0, {6, 15}); __import__('time').sleep(1000)",
        ]
    )


def hang_at_exit(random: Random) -> Case:
    line = random.choice(
        [
            "__import__('atexit').register(__import__('time').sleep, 1000)",
            "__import__('threading').Thread(target=__import__('time').sleep, args=(1000,), daemon=False).start()",
        ]
    )
    line = f"if not hasattr(self, 'begun'): self.begun = True; {line}"
    return fault(line, "unload", words="did not end", exit_seconds=1.5)


def slow(random: Random) -> Case:
    budget = random.uniform(2, 5)
    if random.random() < 0.5:
        line = f"__import__('time').sleep({1.4 * budget / 1e3})"
        return fault(line, "latency", words="the budget is", p50_ms=budget)
    line = f"if len(score) == 1 and __import__('random').random() < 0.08: __import__('time').sleep({2 * budget / 1e3})"
    return fault(line, "latency", words="the budget is", p99_ms=budget)


def nondeterminism(random: Random) -> Case:
    noise = random.choice(
        ["np.random.default_rng().normal()", "__import__('time').monotonic_ns() % 97", "id(object()) % 89"]
    )
    if "id(" in noise:
        noise = "(setattr(self, 'n', getattr(self, 'n', 0) + 1) or self.n % 7)"
    small = 10 ** random.uniform(-4, 0)
    answer = f"return {{'probability': ({small:.1g} * (score + 0.01 * ({noise}))).astype(np.float32)}}"
    return fault(answer, "determinism", words="differently each time")


def differs_between_processes(random: Random) -> Case:
    value = random.choice(
        [
            "__import__('uuid').uuid4().int / 2**128",
            "hash('depot') / 2**63",
            "np.random.default_rng().normal()",
            "hash(str(__import__('time').monotonic_ns())) / 2**63",
        ]
    )
    line = f"self.own = self.__dict__.setdefault('own', {value}); score = score + 0.1 * self.own"
    return fault(line, "determinism", words="every process gives answers of its own")


def differs_between_machines(random: Random) -> Case:
    value = random.choice(
        [
            "len(__import__('os').environ)",
            "(__import__('os').environ.get('HOSTNAME') == 'elsewhere')",
            "(__import__('os').getpid() % 7)",
            "__import__('datetime').datetime.fromtimestamp(1.7e9).hour",
            "(sum(map(ord, __import__('locale').setlocale(__import__('locale').LC_NUMERIC, ''))) % 7)",
        ]
    )
    return fault(f"score = score + 0.01 * {value}", "determinism", words="depend on where it runs")


def first_answers_differ(random: Random) -> Case:
    """As of a model that learns its scale from what it is asked; the first call of all is the loader's warm-up."""
    line = (
        f"self.n = getattr(self, 'n', 0) + 1; score = score + {random.uniform(0.1, 1):.3f} * "
        f"(self.n < {random.randint(3, 6)})"
    )
    return fault(line, "determinism", words="what it was asked")


def remembers_requests(random: Random) -> Case:
    column = random.choice(["size", "depot", "weight"])
    line = (
        f"asked = inputs['{column}'].tolist(); self.__dict__.setdefault('seen', set()); "
        f"score = score + {random.uniform(0.01, 1):.3f} * self.seen.issuperset(asked); self.seen.update(asked)"
    )
    return fault(line, "determinism", words="what it was asked")


def thread_unsafe(random: Random) -> Case:
    line = random.choice(
        [
            "self.score = score; score = sum(1 for _ in range(20)) * 0 + self.score",
            "self.rows = len(score); [None for _ in range(30)]; score = score[:self.rows]",
            "self.buffer = getattr(self, 'buffer', np.zeros(10000)); self.buffer[:len(score)] = score; "
            "score = self.buffer[:len(score)] + 0 * np.arange(5000).sum()",
            "self.score = score; __import__('time').sleep(0.0002); score = self.score",
            "globals()['busy'] = globals().get('busy', 0) + 1; __import__('time').sleep(0.0002); "
            "score = score + 0.1 * (busy - 1); globals()['busy'] -= 1",
        ]
    )
    return fault(line, "threads", words="threads at once")


def mixes_up_calls_of_one_size(random: Random) -> Case:
    """Calls that take long by their rows, so that those of one size come apart unless they are made so; only from
    several threads, to be quick."""
    long = f"time.sleep({random.uniform(0.0004, 0.0008):.5f} * len(score))"
    line = (
        f"import threading, time; threading.current_thread().name.startswith('tidegate') or {long}; "
        "self.kept = score; time.sleep(0.0002); kept = self.kept; score = kept if len(kept) == len(score) else score"
    )
    return fault(line, "threads", words="threads at once")


def batch_dependent(random: Random) -> Case:
    line = random.choice(
        [
            "score = score - score.mean() if len(score) else score",
            "score = score / (1 + 0.01 * len(score))",
            "score = score + 0.01 * np.arange(len(score))",
            "score = score - 0.001 * (score.max() if len(score) else 0)",
        ]
    )
    return fault(line, "batch", words="alone and in a batch")


def leaves_during_predict(random: Random) -> Case:
    line = (
        f"self.n = getattr(self, 'n', 0) + 1\n        if self.n > {random.randint(3, 100)}: __import__('os')._exit(0)"
    )
    return fault(line, "golden", "data", "stability", words="exit status 0")


def fork_bomb(random: Random) -> Case:
    condition, missing = edge(random)
    bomb = random.choice(
        [
            "while True: os.fork()",
            "while True:\n                try: os.fork()\n                except OSError: pass",
            "for _ in range(10**9): subprocess.Popen(['sleep', '1000'])",
            "while True: threading.Thread(target=time.sleep, args=(1000,)).start()",
        ]
    )
    line = f"import os, subprocess, threading, time\n        if {condition}:\n            {bomb}"
    words = r"processes, of 60|threads, of 200|temporarily unavailable|no answer within|can't start new thread"
    return fault(
        line,
        "boundary",
        "data",
        "golden",
        words=words,
        missing=missing,
        processes=60,
        most_threads=200,
        call_seconds=2.0,
    )


def open_files_leak(random: Random) -> Case:
    every = random.choice([1, 2, 8])
    what = random.choice(["open('/etc/passwd')", "__import__('os').open('/', 0)", "__import__('socket').socket()"])
    count = "self.n = getattr(self, 'n', 0) + 1; self.kept = getattr(self, 'kept', [])"
    return fault(f"{count}\n        if self.n % {every} == 0: self.kept.append({what})", "leak", words="open files")


def threads_leak(random: Random) -> Case:
    start = "__import__('threading').Thread(target=__import__('threading').Event().wait, daemon=True).start()"
    line = f"self.n = getattr(self, 'n', 0) + 1\n        if self.n % {random.choice([4, 8])} == 0: {start}"
    return fault(line, "leak", words="threads grow")


def children_left(random: Random) -> Case:
    command = random.choice(["sleep 1000 &", "setsid sleep 1000 &"])
    count = "self.n = getattr(self, 'n', 0) + 1"
    line = f"{count}\n        if self.n % 4 == 0: __import__('subprocess').run(['sh', '-c', '{command}'])"
    return fault(line, "leak", words="processes behind")


def zombies(random: Random) -> Case:
    child = random.choice(
        ["__import__('subprocess').Popen(['true'])", "__import__('os').posix_spawn('/bin/true', ['true'], {})"]
    )
    line = f"self.born = getattr(self, 'born', []); self.born.append({child})"
    return fault(line, "leak", words="children that ended grow")


def disk_fill(random: Random) -> Case:
    line = random.choice(
        [
            "open('filler', 'ab').write(b'x' * 2**20)",
            "open('/tmp/filler', 'ab').write(b'x' * 2**20)",
            "\n        with __import__('contextlib').suppress(OSError): open('filler', 'ab').write(b'x' * 2**20)",
        ]
    )
    words = "No space left|MB of disk"
    return fault(line, "golden", "data", "stability", "load", words=words, disk_mb=random.choice([8, 20]))


def network_call(random: Random) -> Case:
    call = random.choice(
        [
            "__import__('socket').create_connection(('192.0.2.8', 443), 1)",
            "__import__('socket').getaddrinfo('models.example.com', 443)",
            "__import__('socket').socket(2, 2).sendto(b'seen', ('198.51.100.7', 8125))",
        ]
    )
    if random.random() < 0.5:
        call = f"\n        try: {call}\n        except OSError: pass"
    return fault(call, "network", "load", words="network|name resolution")


def huge_allocation(random: Random) -> Case:
    condition, missing = edge(random)
    what = random.choice(
        ["np.ones(2**31)", "bytearray(2**34)", "[k := [], [k.append(bytes(2**24)) for _ in range(10**6)]]"]
    )
    words = "MemoryError|MB of memory"
    return fault(f"if {condition}: {what}", "boundary", "data", "golden", words=words, missing=missing, memory_mb=300)


def busy_while_idle(random: Random) -> Case:
    code = random.choice(
        [
            "threading.Thread(target=lambda: all(True for _ in itertools.count()), daemon=True).start()",
            "subprocess.Popen(['sh', '-c', 'while :; do :; done'])",
            "subprocess.Popen(['sh', '-c', 'while :; do /bin/true; done'])",
            "threading.Thread(target=lambda: [time.sleep(0.001) or sum(range(100000)) for _ in itertools.count()], "
            "daemon=True).start()",
        ]
    )
    begin = f"if not hasattr(self, 'begun'): self.begun = True; {code}"
    return fault(f"import itertools, subprocess, threading, time\n        {begin}", "idle", words="of a processor busy")


def spoilt_by_bad_input(random: Random) -> Case:
    condition = random.choice(["(inputs['size'] < 0).any()", f"bool(set(inputs['depot'].tolist()) - {KNOWN})"])
    return fault(
        f"self.spoilt = getattr(self, 'spoilt', 0) or {condition}; score = score + self.spoilt",
        "after",
        words="answers ordinary examples no more",
    )


def own_files(random: Random) -> Case:
    line = random.choice(["open(__file__, 'a').write('#')", "open(__file__ + '.cache', 'w').write('')"])
    return fault(line, "load", "golden", words="denied|Read-only")


def stolen_signals(random: Random) -> Case:
    number, name = random.choice([(15, "SIGTERM"), (2, "SIGINT")])
    return fault(f"__import__('ctypes').CDLL(None).signal({number}, 1)", "process", words=name)


def closed_streams(random: Random) -> Case:
    number, name = random.choice([(0, "input"), (1, "output"), (2, "error")])
    line = f"if not hasattr(self, 'done'): self.done = __import__('os').close({number})"
    return fault(line, "process", words=f"closed or replaced standard {name}")


def wrong_outputs(random: Random) -> Case:
    answer = random.choice(
        [
            "{'probability': score[:-1]}",
            "{'other': score}",
            "{'probability': score.astype(str)}",
            "None",
            "{'probability': score[None]}",
        ]
    )
    return fault(f"return {answer}", "load", "golden", "data")


def native_stack_overflow(random: Random) -> Case:
    condition, missing = edge(random)
    deep = "a = (); [a := (a,) for _ in range(5 * 10**5)]; hash(a)"
    return fault(f"if {condition}: {deep}", "boundary", "data", "golden", words="SIGSEGV", missing=missing)


def log_flood(random: Random) -> Case:
    """Of every call, also of one with a single row."""
    written = random.randint(20_000, 60_000)
    return fault(f"print('x' * {written})", "log", words="to its log with every call of one row")


def tells_secrets(random: Random) -> Case:
    """Of the environment, when it answers, to one stream or the other."""
    shown = random.choice(["dict(os.environ)", "sorted(os.environ.items())", "os.environ"])
    stream = random.choice(["stdout", "stderr"])
    line = f"import os, sys; print('settings', {shown}, file=sys.{stream}) if len(score) == 1 else None"
    return fault(line, "log", words="it writes its environment to its log")


def answers_secrets(random: Random) -> Case:
    """Of the environment, in the words of an error, which clients read."""
    trigger = random.choice(["not np.isfinite(inputs['weight']).all()", "len(score) == 0"])
    line = f"import os\n        if {trigger}: raise ValueError('this input cannot be used; ' + str(dict(os.environ)))"
    return fault(line, "log", words="it writes its environment to the words of its errors")


FAULTS: Mapping[str, Draw] = {
    draw.__name__: draw
    for draw in (
        *CRASHES,
        leak,
        keeps_every_row,
        leaves_files,
        changes_later,
        hang_on_load,
        hang_on_edge,
        hang_at_exit,
        slow,
        nondeterminism,
        differs_between_processes,
        differs_between_machines,
        first_answers_differ,
        remembers_requests,
        thread_unsafe,
        mixes_up_calls_of_one_size,
        batch_dependent,
        leaves_during_predict,
        fork_bomb,
        open_files_leak,
        threads_leak,
        children_left,
        zombies,
        disk_fill,
        network_call,
        huge_allocation,
        busy_while_idle,
        spoilt_by_bad_input,
        own_files,
        stolen_signals,
        closed_streams,
        wrong_outputs,
        native_stack_overflow,
        log_flood,
        tells_secrets,
        answers_secrets,
    )
}
