"""What fails beside all other tests is run once more alone, and named; what is broken stays a failure."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from tests import run
from tests.run import IN_PARALLEL, RUN_AGAIN, Tally, run_cargo, run_pytest

CRATE = """
    [package]
    name = "made-up"
    edition = "2021"

    [workspace]

    [lib]
    path = "lib.rs"
"""
RUST = """
    #[test]
    fn holds() {}

    #[test]
    fn holds_alone() {
        let before = std::path::Path::new("before");
        if !before.exists() {
            std::fs::write(before, "").unwrap();
            panic!("the first time");
        }
    }
"""
PYTHON = """
    from pathlib import Path

    import pytest

    def test_holds() -> None:
        assert True

    @pytest.mark.parametrize("name", ["a b", "x@y"])
    def test_holds_alone(name: str) -> None:
        before = Path(__file__).with_name(name)
        if not before.exists():
            before.write_text("")
            raise ValueError("the first time")
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of tests, whose report is written beside them; one process runs them, which begins in a moment."""
    monkeypatch.setattr(run, "BUILD", tmp_path)
    monkeypatch.setattr(run, "REPEATABLE", ())
    monkeypatch.setattr(run, "IN_PARALLEL", ("--numprocesses=1", *IN_PARALLEL[1:]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    options = "--import-mode=importlib -p no:cacheprovider -p xdist.plugin"
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = {options}\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(textwrap.dedent(text))


def test_what_passes_alone_is_named_and_what_is_broken_fails(place: Path) -> None:
    write(place / "room" / "test_some.py", PYTHON)
    write(place / "test_broken.py", "def test_broken() -> None:\n    assert False\n")
    tally = Tally()
    run_pytest(tally, place)
    assert (tally.passed, tally.failed, tally.skipped) == (3, 1, [])
    assert sorted(tally.unsteady) == [f"room.test_some::test_holds_alone[{name}]" for name in ("a b", "x@y")]


def test_many_failures_are_not_run_again(place: Path) -> None:
    for number in range(RUN_AGAIN):
        write(place / f"test_broken_{number}.py", "def test_broken() -> None:\n    assert False\n")
    write(place / "test_some.py", PYTHON)
    tally = Tally()
    run_pytest(tally, place)
    assert (tally.passed, tally.failed, tally.unsteady) == (1, RUN_AGAIN + 2, [])


def test_a_file_that_cannot_be_read_is_a_failure(place: Path) -> None:
    write(place / "test_broken.py", "import no_such_library\n")
    tally = Tally()
    run_pytest(tally, place)
    assert (tally.passed, tally.failed, tally.unsteady) == (0, 1, [])


@pytest.mark.parametrize("broken", [False, True])
def test_tests_of_cargo_are_run_again_too(place: Path, broken: bool) -> None:
    more = "\n#[test]\nfn broken() {\n    panic!();\n}\n" if broken else ""
    write(place / "Cargo.toml", CRATE)
    write(place / "Cargo.lock", 'version = 3\n\n[[package]]\nname = "made-up"\nversion = "0.0.0"\n')
    write(place / "lib.rs", textwrap.dedent(RUST) + more)
    tally = Tally()
    run_cargo(tally, place)
    assert (tally.passed, tally.failed, tally.unsteady) == (2, int(broken), ["holds_alone"])
