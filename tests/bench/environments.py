"""Environments of their own under `build/peers` for what is measured beside Tidegate, from the package index."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench.servers import ROOT


def environment(name: str, packages: Sequence[str]) -> Path:
    """The folder of an environment with these packages, made with uv where it is not there yet."""
    folder = ROOT / "build/peers" / name
    if not (folder / "whole").exists():
        uv = (ROOT / ".tools/uv").read_text().strip()
        subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, str(folder)], check=True)
        python = str(folder / "bin/python")
        subprocess.run([uv, "pip", "install", "-q", "--python", python, *packages], check=True)
        (folder / "whole").touch()
    return folder
