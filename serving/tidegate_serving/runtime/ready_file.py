"""The ready file: where a server that was just started listens, for whoever started it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tidegate_serving.files import file_error, write_atomically
from tidegate_serving.runtime.running_engine import EngineAddresses


def write_ready_file(path: Path, addresses: EngineAddresses) -> None:
    """Addresses and process id as JSON, complete before anybody can see it. Raises as `files.keep`."""
    document = {
        "format": "tidegate.ready/1",
        "grpc": addresses.grpc,
        "rest": addresses.rest,
        "control": addresses.control,
        "pid": os.getpid(),
    }
    try:
        write_atomically(path, (json.dumps(document) + "\n").encode())
    except OSError as error:
        raise file_error(error, path) from error
