"""The `tidegate` command as a whole: its groups, its version, completion, and commands of other packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import pytest
from tests.support.command import Command

from tidegate_pipelines.cli.app import whole_command
from tidegate_pipelines.cli.groups import GROUPS

OFFERED = '''
import typer

def weather(place: str = "here") -> None:
    """Say how the weather is."""
    typer.echo(f"it rains {place}")

several = typer.Typer(help="Two more.")

@several.command()
def one() -> None:
    """The first."""
    typer.echo("one")

@several.command()
def two() -> None:
    """The second."""

def status() -> None:
    """Not the engine's."""
'''
ENTRY_POINTS = """
[tidegate.commands]
weather = weather_words:weather
several = weather_words:several
status = weather_words:status
torn = weather_words:nothing_of_that_name
"""


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package, as far as Python can tell, that offers commands."""
    info = tmp_path / "weather_words-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weather-words\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "weather_words.py").write_text(textwrap.dedent(OFFERED))
    monkeypatch.syspath_prepend(str(tmp_path))


def complete(words: str) -> list[str]:
    """What a shell offers after these words."""
    told = {"_TIDEGATE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    script = Path(sys.executable).with_name("tidegate")
    done = subprocess.run([script], env={**os.environ, **told}, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.split()


def test_every_command_of_ours_is_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(vars(whole_command())["commands"])


MODULE_OF = {name: module for modules in GROUPS.values() for name, module in modules.items()}
ALONE = """
import sys
from tidegate_pipelines.cli.app import main

sys.argv = ["tidegate", "verify", "--help"]
try:
    main()
finally:
    print(*(name for name in sys.modules if name.startswith("tidegate_pipelines.cli.")), file=sys.stderr)
"""


@pytest.mark.parametrize("name", MODULE_OF)
def test_a_command_is_made_alone_as_it_is_among_the_others(name: str, tidegate: Command) -> None:
    told = tidegate(name, "--help")
    assert (told.returncode, told.stderr) == (0, "")
    assert tidegate("--profile", "none", name, "--help") == told


def test_a_command_needs_no_module_of_another() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=60, check=True)
    loaded = {module.rpartition(".")[2] for module in done.stderr.split()}
    assert loaded & {*MODULE_OF.values()} == {"verify"}


def test_help_shows_the_groups_in_order(tidegate: Command) -> None:
    told = tidegate("--help").stdout
    found = re.findall(r"^([A-Z][a-z ]+):$", told, re.MULTILINE)
    assert found == ["Options", *GROUPS, "More"]
    serve = told.partition("\nServe:\n")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in serve.splitlines()] == list(GROUPS["Serve"])


def test_the_version_is_the_distributions(tidegate: Command) -> None:
    done = tidegate("--version")
    assert (done.returncode, done.stdout) == (0, f"tidegate {metadata.version('tidegate')}\n")


def test_a_shell_completes_commands_their_options_and_the_demo() -> None:
    assert complete("tidegate ro") == ["rollback"]
    assert complete("tidegate keys r") == ["rotate", "revoke"]
    assert complete("tidegate publish --sig") == ["--signature"]
    assert complete("tidegate dem") == ["demo"]


def test_a_mistyped_command_is_answered_with_one_that_is_there(tidegate: Command) -> None:
    done = tidegate("stauts")
    assert done.returncode == 2
    assert "Did you mean 'status'" in done.stderr


@pytest.mark.usefixtures("package")
def test_a_package_adds_a_command_and_a_group_of_them(tidegate: Command) -> None:
    assert tidegate("weather", "--place", "there").stdout == "it rains there\n"
    assert tidegate("several", "one").stdout == "one\n"
    listed = tidegate("--help").stdout.partition("\nMore:\n")[2]
    assert re.search(r"^  several +Two more\.$", listed, re.MULTILINE)
    assert re.search(r"^  weather +Say how the weather is\.$", listed, re.MULTILINE)


@pytest.mark.usefixtures("package")
def test_a_package_does_not_replace_a_command_of_ours(tidegate: Command) -> None:
    assert "Not the engine's" not in tidegate("status", "--help").stdout
    assert tidegate("--help").stdout.count("\n  status ") == 1


@pytest.mark.usefixtures("package")
def test_a_command_that_cannot_be_loaded_says_so_when_it_is_called_and_no_sooner(tidegate: Command) -> None:
    assert "cannot be loaded" in tidegate("--help").stdout
    done = tidegate("torn", "--with", "any option")
    assert done.returncode == 2
    assert "command 'torn' cannot be loaded (AttributeError" in done.stderr
    assert "mend or reinstall the package weather-words" in done.stderr
