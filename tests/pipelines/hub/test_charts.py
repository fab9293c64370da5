"""Charts place numbers where they belong, say the same as a table, and leave gaps where nothing is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tidegate_pipelines.hub.pages.charts import (
    Series,
    Span,
    Window,
    bar_chart,
    bin_bars,
    line_chart,
    runs,
    spark,
    violins,
)
from tidegate_pipelines.hub.pages.words import (
    ago_words,
    count_words,
    moment_words,
    seconds_words,
    share_words,
    span_words,
)

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
TEN = Span(NOON, NOON + timedelta(days=10))


def day(number: int) -> datetime:
    return NOON + timedelta(days=number)


def test_a_line_has_a_gap_where_nothing_is_known_and_its_table_says_so() -> None:
    values = [(day(0), 1.0), (day(5), None), (day(10), 4.0)]
    chart = line_chart("k", "t", TEN, [Series("n", "a", values)], count_words, ())
    assert chart.lines[0].path == "M0.0 75.0M1000.0 0.0"
    assert chart.heights == ("4", "3", "2", "1", "0")
    assert [row[1] for row in chart.table.rows] == ["1", "–", "4"]
    assert chart.sentence == "n: 1 to 4, last 4"


def test_a_chart_of_nothing_and_of_zeros_has_a_scale() -> None:
    empty = line_chart("k", "t", TEN, [Series("n", "a", [])], count_words, ())
    zeros = bar_chart("k", "t", TEN, Series("n", "a", [(day(1), 0.0)]), share_words, ())
    assert empty.heights[-1] == zeros.heights[-1][0] == "0"
    assert zeros.bars[0].y == 0
    few = bar_chart("k", "t", TEN, Series("n", "a", [(day(1), 1.0), (day(2), 3.0)]), count_words, ())
    one = bar_chart("k", "t", TEN, Series("n", "a", [(day(1), 1.0)]), count_words, ())
    assert (few.heights, one.heights) == (("3", "2", "1", "0"), ("1", "0")), (
        "nothing was asked three quarters of a time"
    )
    assert empty.sentence == "nothing was counted"


def test_windows_of_one_state_are_one_block() -> None:
    states = ("PASS", "PASS", "FAIL", "FAIL", "PASS")
    windows = [
        Window(day(n), day(n + 1), state, 0.1, "why" if state == "FAIL" else "") for n, state in enumerate(states)
    ]
    assert [(one.state, one.x, one.width) for one in runs(windows, TEN)] == [
        ("PASS", 0.0, 20.0),
        ("FAIL", 20.0, 20.0),
        ("PASS", 40.0, 10.0),
    ]
    assert runs(windows, TEN)[1].words == "FAIL, 3 Jun to 5 Jun: why"


def test_a_feature_over_time_has_few_columns_and_shows_the_worst_of_each() -> None:
    windows = [Window(day(n), day(n + 1), "FAIL" if n == 3 else "PASS", 0.1, "", (0.5, 0.5)) for n in range(10)]
    found = violins(windows, ("low", "high"), 5)
    assert [one.state for one in found] == ["PASS", "FAIL", "PASS", "PASS", "PASS"]
    assert violins([Window(day(0), day(1), "PASS", 0.1, "", (1.0,))], ("low", "high"), 5) == ()


def test_dates_under_columns_are_those_of_the_columns_whatever_time_lies_between() -> None:
    windows = [Window(day(n), day(n + 1), "PASS", 0.1, "", (1.0,)) for n in (0, 6, 7, 8, 9)]
    columns = violins(windows, ("all",), 5)
    assert TEN.dates_of(columns) == ((10.0, "1 Jun"), (30.0, "7 Jun"), (70.0, "9 Jun"), (90.0, "10 Jun UTC"))
    assert TEN.dates_of(columns[:1]) == ((10.0, "1 Jun UTC"),)
    hour = timedelta(hours=1)
    two = [Window(day(0) + n * hour, day(0) + (n + 1) * hour, "PASS", 0.1, "", (1.0,)) for n in range(2)]
    first, second = (f"{one.start:%-d %b %H:%M}" for one in two)
    assert TEN.dates_of(violins(two, ("all",), 5)) == ((25.0, first), (75.0, f"{second} UTC"))


def test_of_many_bins_those_that_changed_are_shown_in_their_order() -> None:
    bars = bin_bars(("a", "b", "c", "d"), (0.4, 0.3, 0.3, 0.0), (0.1, 0.3, 0.5, 0.1), 2)
    assert [(one.label, one.change) for one in bars] == [("a", "-30.0"), ("c", "+20.0")]
    assert bin_bars(("a",), (0.4001,), (0.4,), 2)[0].change == "+0.0"


def test_numbers_are_short_and_have_their_unit() -> None:
    assert [count_words(one) for one in (0, 12, 999.6, 12_345, 2_000_000)] == ["0", "12", "1 k", "12.3 k", "2 M"]
    assert [seconds_words(one) for one in (0, 0.0123, 0.9999, 2.5)] == ["0", "12.3 ms", "1 s", "2.5 s"]
    assert ago_words(NOON - timedelta(hours=3), NOON) == "3 h ago"
    assert ago_words(NOON + timedelta(days=4), NOON) == "in 4 days"
    assert ago_words(NOON, NOON) == "just now"
    spans = (0.2, 2, 59.4, 59.6, 3580, 47.7 * 3600)
    told = ["less than a second", "2 s", "59 s", "1 min", "1 h", "2 days"]
    assert [span_words(timedelta(seconds=one)) for one in spans] == told
    assert moment_words(NOON, NOON + timedelta(hours=1)) == "1 Jun 2026 12:00 UTC"
    assert moment_words(NOON, NOON + timedelta(seconds=9)) == "1 Jun 2026 12:00:00 UTC"
    assert spark([1.0]) == ""
