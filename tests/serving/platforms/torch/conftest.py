"""PyTorch is in no lock, so `make test-extras` alone runs these tests, in an environment that has it."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]
