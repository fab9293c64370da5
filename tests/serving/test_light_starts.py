"""Processes that the engine and the gates start by the dozen import no more than each of them needs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LOADED = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
print(json.dumps([name for name in sys.argv[2:] if name in sys.modules]))
"""
NEEDLESS = ("google.protobuf", "google_crc32c", "grpc", "tidegate_native", "tidegate_serving.config", "urllib.request")


@pytest.mark.parametrize("module", ["tidegate_serving.worker", "tidegate_serving.probe"])
def test_a_process_of_one_model_starts_with_what_every_model_needs(module: str) -> None:
    command = [sys.executable, "-c", LOADED, module, *NEEDLESS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == []
