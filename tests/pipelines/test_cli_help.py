"""What a newcomer reads of each command: whole sentences, a word for every option, none of Python's types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.command import Command

from tidegate_pipelines.cli.app import whole_command

ROOT: Any = whole_command()


def pages(command: Any, name: str, parent: Any = None) -> Iterator[tuple[str, str, Any]]:
    """Each command below and with this one: its name, its help on 80 columns, and itself."""
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    yield context.command_path, command.get_help(context), command
    for below in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from pages(command.get_command(context, below), below, context)


PAGES = {path: (text, command) for path, text, command in pages(ROOT, "tidegate")}


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


@pytest.mark.parametrize("path", PAGES)
def test_a_list_of_commands_says_of_each_all_that_it_begins_to_say(path: str) -> None:
    text, command = PAGES[path]
    listed = text.rpartition("\nCommands:\n")[2] if path != "tidegate" else text.partition("\nRelease a model:\n")[2]
    assert [line for line in listed.splitlines() if hasattr(command, "commands") and line.endswith("...")] == []


@pytest.mark.parametrize("path", PAGES)
def test_every_option_is_explained(path: str) -> None:
    _, command = PAGES[path]
    assert [one.opts for one in command.params if not (getattr(one, "help", None) or "").strip()] == []


@pytest.mark.parametrize("path", PAGES)
def test_options_have_words_for_what_they_take_and_usage_has_no_brackets_twice(path: str) -> None:
    text, _ = PAGES[path]
    options = text.partition("\nOptions:\n")[2]
    assert [word for word in ("range>", "<list[", "9223372036854775807") if word in options] == []
    assert "[[" not in text.partition("\n\n")[0]


@pytest.mark.parametrize("given", ["-1", "two", "1.5", "9223372036854775808", "9" * 5000, ""])
def test_what_is_no_versions_number_is_said_with_what_is(given: str, tidegate: Command) -> None:
    done = tidegate("promote", "--", "flights", given)
    assert done.returncode == 2
    assert re.search(r"is no version's number: give a whole\s+one, such as 2", done.stderr)
