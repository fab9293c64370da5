"""The check of Rust's modules finds circles, however their paths are written, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
USES_B = "use crate::b::B;"


def check(workspace: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/rust_modules.py"), str(workspace)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def crate(workspace: Path, files: dict[str, str]) -> Path:
    """A workspace with one crate of these files."""
    (workspace / "one/src").mkdir(parents=True)
    (workspace / "Cargo.toml").write_text('[workspace]\nmembers = ["one"]\n')
    (workspace / "one/Cargo.toml").write_text('[package]\nname = "one"\n')
    for name, code in files.items():
        path = workspace / "one/src" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
    return workspace


def test_our_crates_have_no_circle() -> None:
    checked = check(ROOT / "serving/native")
    assert (checked.returncode, checked.stderr) == (0, "")
    for name in ("tidegate-codec", "tidegate-engine", "tidegate-plane", "tidegate-native"):
        assert name in checked.stdout


@pytest.mark.parametrize(
    "back",
    [
        "use crate::a::A;",
        "use super::a;",
        "use crate::{c::C, a::{self, A}};",
        "fn b() -> u8 { crate::a::one() }",
        "mod inner { use super::super::a::A; }",
    ],
)
def test_a_circle_fails_however_its_path_is_written(tmp_path: Path, back: str) -> None:
    workspace = crate(tmp_path, {"lib.rs": "mod a;\nmod b;\nmod c;", "a.rs": USES_B, "b.rs": back, "c.rs": ""})
    checked = check(workspace)
    assert checked.returncode == 1
    assert "a circle among modules of one: " in checked.stderr
    assert {"a -> b -> a", "b -> a -> b"} & {line.partition(": ")[2] for line in checked.stderr.splitlines()}


def test_folders_must_depend_one_way_too(tmp_path: Path) -> None:
    files = {
        "lib.rs": "",
        "x/mod.rs": "",
        "x/a.rs": "use crate::y::b::B;",
        "x/c.rs": "",
        "y/mod.rs": "",
        "y/b.rs": "use crate::x::c::C;",
    }
    assert "x -> y -> x" in check(crate(tmp_path, files)).stderr.replace("y -> x -> y", "x -> y -> x")


def test_a_folder_that_hands_on_what_uses_it_is_in_a_circle(tmp_path: Path) -> None:
    files = {"lib.rs": "", "x/mod.rs": "pub use a::A;\npub fn one() {}", "x/a.rs": "use super::one;"}
    assert "x/" in check(crate(tmp_path, files)).stderr


@pytest.mark.parametrize(
    "harmless",
    [
        "// use crate::a::A;",
        'const TEXT: &str = "crate::a::A";',
        "use other::a::A;",
        "#[cfg(test)]\nmod tests { use crate::a::A; }",
        "fn b<'a>(text: &'a str) { let quote = '\"'; }",
    ],
)
def test_what_is_no_dependency_passes(tmp_path: Path, harmless: str) -> None:
    workspace = crate(tmp_path, {"lib.rs": "mod a;\nmod b;", "a.rs": USES_B, "b.rs": harmless})
    assert check(workspace).returncode == 0
