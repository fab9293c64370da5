"""Models that are odd, heavy or loud, and do no harm; each must pass the robustness gate.

None may be warned of anything but what its `warns` names.

`test_faults` examines each once, `tests.bench.gate.robustness` many times.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from tests.validation.robustness.fault_cases import MAX_BATCH, Case, Draw, control, refusal


def honest(random: Random) -> Case:
    return control("pass")


def heavy_but_legal(random: Random) -> Case:
    # What is left is what the scheduler of a busy machine takes.
    budget = random.uniform(20, 35)
    return control(f"__import__('time').sleep({0.4 * budget / 1e3})", p50_ms=budget, p99_ms=budget * 6)


def near_its_memory(random: Random) -> Case:
    return control("self.weights = getattr(self, 'weights', None) or bytes(200 << 20)", memory_mb=400)


def cache_that_fills(random: Random) -> Case:
    size = random.choice([20, 40, 60])
    line = f"self.cache = getattr(self, 'cache', []); self.cache.append(bytes(2**18)); del self.cache[:-{size}]"
    return control(line)


def cache_of_rows(random: Random) -> Case:
    """As `functools.lru_cache` keeps: of so many rows, the oldest go first."""
    most, size = random.choice([(1000, 2000), (10_000, 1000), (40_000, 500)])
    line = (
        "kept = self.__dict__.setdefault('kept', {}); "
        f"kept.update((float(one), bytes({size})) for one in inputs['weight']); "
        f"[kept.pop(next(iter(kept))) for _ in range(len(kept) - {most})]"
    )
    return control(line)


def refuses_odd_inputs(random: Random) -> Case:
    condition = random.choice(
        [
            "np.isinf(inputs['weight']).any()",
            "np.isnan(inputs['size']).any()",
            "len(score) == 0",
            f"len(score) > {MAX_BATCH}",
            "any(b'\\xff' in d for d in inputs['depot'])",
            "(inputs['weight'] < 0).any()",
        ]
    )
    return control(f"if {condition}: {refusal(random)}")


def prints_much(random: Random) -> Case:
    line = random.choice(
        [
            "print('x' * 2000)",
            "__import__('os').write(1, b'\\x00\\x00\\x00\\x02{}' * 50)",
            "__import__('warnings').warn('odd')",
            "__import__('logging').warning('slow')",
        ]
    )
    return control(line)


def writes_into_its_input(random: Random) -> Case:
    return control("inputs['weight'][...] = 0; inputs['size'] *= 2; self.last = inputs")


def has_helpers(random: Random) -> Case:
    line = random.choice(
        [
            "import concurrent.futures as f; self.pool = getattr(self, 'pool', None) or f.ThreadPoolExecutor(2); "
            "score = self.pool.submit(lambda: score).result()",
            "self.lock = self.__dict__.setdefault('lock', __import__('threading').Lock())\n"
            "        with self.lock:\n            self.score = score; score = self.score",
            "score = np.sort(score)[np.argsort(np.argsort(score))]",
        ]
    )
    return control(line)


def uses_temporary_files(random: Random) -> Case:
    return control(
        "\n        with __import__('tempfile').NamedTemporaryFile() as file: file.write(b'x' * 100000)", disk_mb=8
    )


def starts_a_daemon(random: Random) -> Case:
    start = "self.daemon = __import__('subprocess').Popen(['sleep', '1000'], start_new_session=True)"
    return control(
        f"if not hasattr(self, 'daemon'): {start}", warns="leaves 1 process behind when it is unloaded: sleep"
    )


def ticks_while_idle(random: Random) -> Case:
    """As clients of metrics do, and native libraries for a moment after a call."""
    code = random.choice(
        [
            "threading.Thread(target=lambda: [time.sleep(0.1) for _ in itertools.count()], daemon=True).start()",
            "threading.Thread(target=lambda: all(time.monotonic() < end for _ in itertools.count()), "
            "daemon=True).start()",
        ]
    )
    begin = f"if not hasattr(self, 'begun'): self.begun = True; end = time.monotonic() + 0.8; {code}"
    return control(f"import itertools, threading, time\n        {begin}")


def caches_where_it_may_not(random: Random) -> Case:
    return control("\n        try: open(__file__ + '.cache', 'w')\n        except OSError: pass", warns=r"\.cache")


def writes_into_its_users_home(random: Random) -> Case:
    name = random.choice(["served.txt", ".model/state"])
    line = (
        f"from pathlib import Path; own = Path.home() / '{name}'; own.parent.mkdir(exist_ok=True); "
        "own.write_text('x' * len(score))"
    )
    return control(line, warns="outside its working folder: ~/")


def caches_where_it_may(random: Random) -> Case:
    """In its user's cache, beside itself in the working folder, or where temporary files go."""
    folder = random.choice(
        ["Path.home() / '.cache' / 'model'", "Path('model')", "Path(tempfile.gettempdir()) / 'model'"]
    )
    line = f"own = {folder}; own.mkdir(parents=True, exist_ok=True); (own / 'cached').write_text('x')"
    return control(f"import tempfile; from pathlib import Path; {line}")


def tells_where_it_runs(random: Random) -> Case:
    line = "import os, time; print(os.getpid(), os.environ.get('HOSTNAME'), time.localtime().tm_hour, len(os.environ))"
    return control(line)


def asks_for_telemetry_at_home(random: Random) -> Case:
    """A library that looks for a collector beside it, as tracing and metrics clients do, and does without."""
    call = random.choice(
        [
            "__import__('socket').create_connection(('127.0.0.1', 8126), 1)",
            "__import__('socket').create_connection(('localhost', 8126), 1)",
            "__import__('socket').socket(2, 2).sendto(b'seen', ('127.0.0.1', 8125))",
            "__import__('urllib.request').request.urlopen('http://[::1]:4318/v1/traces', timeout=1)",
        ]
    )
    return control(f"\n        try: {call}\n        except OSError: pass", warns=r"127\.0\.0\.1:812|::1:(4318|8126)")


def never_waits_for_its_helper(random: Random) -> Case:
    line = "if not hasattr(self, 'helper'): self.helper = __import__('subprocess').Popen(['true'])"
    return control(line, warns="never waited for 1 child")


def waits_for_its_helpers(random: Random) -> Case:
    return control("__import__('subprocess').run(['true'], check=True)")


def sets_the_environment(random: Random) -> Case:
    line = random.choice(
        [
            "__import__('os').environ['OMP_NUM_THREADS'] = '1'",
            "__import__('os').environ.pop('LANG', None)",
            "__import__('os').putenv('TOKENIZERS_PARALLELISM', 'false')",
        ]
    )
    return control(line, warns="environment variables .*: (OMP_NUM_THREADS|LANG|TOKENIZERS_PARALLELISM)$")


def takes_long_for_a_long_text(random: Random) -> Case:
    line = f"__import__('time').sleep({random.uniform(0.55, 0.65):.2f} * any(len(d) > 9999 for d in inputs['depot']))"
    return control(line, warns=r'depot="x+…"` it takes [01]\.?\d* s to answer, with ordinary rows \d[\d.e+-]* ms')


def rounds_in_a_batch(random: Random) -> Case:
    """As a float32 sum of terms of a hundred does, of which little is left."""
    small = f"0.02 / (1 + np.exp(-score)) + {random.choice([2e-6, 6e-6])} * (len(score) == 1)"
    return control(f"return {{'probability': ({small}).astype(np.float32)}}", warns="in a batch, .* by rounding: raise")


def answers_whole_numbers(random: Random) -> Case:
    line = random.choice(["[0] * len(score)", "np.zeros(len(score), np.int32)"])
    return control(f"return {{'probability': {line}}}", warns="whole numbers in `probability`")


def tells_settings_without_secrets(random: Random) -> Case:
    """As careful programs do: names alone, or values but for those that look like secrets."""
    shown = random.choice(["sorted(os.environ)", "{k: v for k, v in os.environ.items() if 'TOKEN' not in k.upper()}"])
    return control(f"import os, sys; print('settings', {shown}, file=sys.stderr) if len(score) == 1 else None")


CONTROLS: Mapping[str, Draw] = {
    draw.__name__: draw
    for draw in (
        honest,
        heavy_but_legal,
        near_its_memory,
        cache_that_fills,
        cache_of_rows,
        refuses_odd_inputs,
        prints_much,
        writes_into_its_input,
        has_helpers,
        uses_temporary_files,
        starts_a_daemon,
        ticks_while_idle,
        caches_where_it_may_not,
        writes_into_its_users_home,
        caches_where_it_may,
        tells_where_it_runs,
        asks_for_telemetry_at_home,
        never_waits_for_its_helper,
        waits_for_its_helpers,
        sets_the_environment,
        takes_long_for_a_long_text,
        tells_settings_without_secrets,
        rounds_in_a_batch,
        answers_whole_numbers,
    )
}
