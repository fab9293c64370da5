"""What the Makefile's tools are found by, on machines that have some of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_rust_that_cannot_run_is_passed_over_without_a_word(tmp_path: Path) -> None:
    program(tmp_path / "shims" / "cargo", "exit 1")
    program(tmp_path / "shims" / "rustc", "echo 'error: rustup could not choose a version of rustc to run' >&2; exit 1")
    cargo = program(tmp_path / "home" / ".cargo" / "bin" / "cargo", "exit 0")
    program(cargo.with_name("rustc"), "echo 'rustc 1.99.0 (0123456 2026-01-01)'")
    done = subprocess.run(
        [ROOT / "tools" / "toolchain.sh", "cargo"],
        env={"PATH": f"{tmp_path / 'shims'}:/usr/bin:/bin", "HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == (f"{cargo}\n", "")
