"""The ready file: where a server that was just started listens, for whoever started it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tidegate_serving.files.atomic import write_atomically
from tidegate_serving.runtime.running_engine import EngineAddresses


def write_ready_file(path: Path, addresses: EngineAddresses) -> None:
    """Addresses and process id as JSON, complete before anybody can see it."""
    document = {
        "format": "tidegate.ready/1",
        "grpc": addresses.grpc,
        "rest": addresses.rest,
        "control": addresses.control,
        "pid": os.getpid(),
    }
    write_atomically(path, (json.dumps(document) + "\n").encode())
