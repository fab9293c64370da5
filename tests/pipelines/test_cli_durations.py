"""Spans of time on the command line: the longest is a century."""

from __future__ import annotations

from datetime import timedelta

import pytest
import typer

from tidegate_pipelines.cli.durations import duration


@pytest.mark.parametrize("text", ["99999999999d", "36501d", f"{'9' * 400}s"])
def test_a_span_that_no_calendar_holds_is_named(text: str) -> None:
    assert duration("36500d", "--older-than") == timedelta(days=36500)
    with pytest.raises(typer.BadParameter, match="too long: write at most 36500d"):
        duration(text, "--older-than")
