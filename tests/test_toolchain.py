"""What the Makefile's tools are found by, on machines that have some of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
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


def compiling(folder: Path, every: float, command: str) -> subprocess.CompletedProcess[str]:
    lock = folder / "Cargo.lock"
    lock.write_text('version = 4\n\n[[package]]\nname = "a"\n\n[[package]]\nname = "b"\n')
    program = [sys.executable, str(ROOT / "tools" / "compiling.py"), str(lock), str(every), "sh", "-c", command]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def test_a_build_says_how_far_it_is_and_what_else_the_compiler_says(tmp_path: Path) -> None:
    said = "echo '    Updating index' >&2; echo '   Compiling a v1.0' >&2; echo '   Compiling b v1.0' >&2"
    done = compiling(tmp_path, 0, f"{said}; echo 'error: no linker' >&2; echo wheel; exit 3")
    assert (done.returncode, done.stdout) == (3, "wheel\n")
    lines = [re.sub(r", after \d+ s$", "", line) for line in done.stderr.splitlines()]
    assert lines.count("error: no linker") == 1
    assert "  fetching crates" in lines
    assert "  1 of at most 2 crates, now a" in lines
    assert "  2 of at most 2 crates, now b" in lines
    assert not [line for line in lines if "Compiling" in line or "Updating" in line]


def test_a_build_that_is_soon_over_says_nothing_of_its_crates(tmp_path: Path) -> None:
    waits = "    Blocking waiting for file lock on build directory"
    done = compiling(tmp_path, 60, f"echo '{waits}' >&2; echo '   Compiling a v1.0' >&2; echo 'Built wheel' >&2")
    assert (done.returncode, done.stderr) == (0, f"{waits}\nBuilt wheel\n"), "what it waits for is told"


def test_a_crate_that_takes_long_is_told_again_and_again(tmp_path: Path) -> None:
    """It ends once it has been told of three times."""
    command = "echo '   Compiling a v1.0' >&2; read -r _ < go"
    lock = tmp_path / "Cargo.lock"
    lock.write_text("[[package]]\n")
    go = tmp_path / "go"
    os.mkfifo(go)
    program = [sys.executable, str(ROOT / "tools" / "compiling.py"), str(lock), "0.01", "sh", "-c", command]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stderr is not None
        told = (line for line in process.stderr if "1 of at most 1 crates, now a" in line)
        assert len([next(told) for _ in range(3)]) == 3
        go.write_text("on\n")
        process.stderr.read()
    assert process.returncode == 0
