from __future__ import annotations

import pytest

from tidegate_pipelines.cli.console import show_table

COLUMNS = ("model", "version", "state", "labels", "since (UTC)", "max difference", "admitted by")
ROW = ("flights-" + "of-all-airports-" * 5, "20260501000001", "AVAILABLE", "canary, shadow", "2026-06-01 12:30:00")
WORDS = ("20260501000001", "AVAILABLE", "12:30:00", "0.001234", "INCONCLUSIVE")


def printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int, *rows: tuple[str, ...]
) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    show_table("", COLUMNS, rows)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_numbers_versions_and_outcomes_never_fold(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    lines = printed(capsys, monkeypatch, width, (*ROW, "0.001234", "INCONCLUSIVE"))

    assert [word for word in WORDS if not any(word in line.split() for line in lines)] == []


def test_a_long_name_folds_so_that_a_table_fits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = (*ROW, "0.001234", "validator")

    assert max(map(len, printed(capsys, monkeypatch, 90, row))) <= 90
    assert "".join(line[1:16].strip() for line in printed(capsys, monkeypatch, 90, row)).count("of-all-airports-") == 5
    assert any(ROW[0] in line for line in printed(capsys, monkeypatch, 200, row))


def test_a_table_without_rows_is_its_heading(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert any(line.split()[:3] == ["model", "version", "state"] for line in printed(capsys, monkeypatch, 200))
