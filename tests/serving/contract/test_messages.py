"""Message classes are the same for every thread, also where several ask for the first time at once."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from tidegate_serving.contract.messages import message

together = threading.Barrier(8)

def make(_):
    together.wait()
    inner = message("tidegate.v1.VersionReference")(version=1)
    desired = message("tidegate.v1.DesiredState")(servable="m", versions=[inner])
    return message("tidegate.v1.SetDesiredStateRequest")(desired=desired)

sys.setswitchinterval(1e-6)
with ThreadPoolExecutor(8) as pool:
    assert len(list(pool.map(make, range(8)))) == 8
"""


def test_threads_that_ask_first_at_the_same_time_get_one_class() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
