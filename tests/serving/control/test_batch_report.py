"""What an engine's counters say of batching, and that the advice follows from the numbers and from nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate_serving.control.batch_report import Closed, SignatureBatches, advice, signature_batches

LABELS = 'model="m",version="3",signature="serving_default"'


def batches(**closed: tuple[float, float, float]) -> SignatureBatches:
    """A signature with 64 rows at most, a time-out of 10 ms, runs of 2 ms and a wait of 1 ms."""
    found = SignatureBatches("m", 3, "serving_default", max_rows=64, timeout=0.01, concurrency=1)
    found.queue_seconds, found.run_seconds = 0.001, 0.002
    found.closed = {reason: Closed(*numbers) for reason, numbers in closed.items()}
    return found


def only(found: SignatureBatches) -> str:
    (sentence,) = advice(found)
    return sentence


def counters(scale: float = 1) -> dict[str, float]:
    return {
        f'tidegate_closed_batches_total{{{LABELS},reason="timeout"}}': 70 * scale,
        f'tidegate_closed_batch_requests_total{{{LABELS},reason="timeout"}}': 140 * scale,
        f'tidegate_closed_batch_rows_total{{{LABELS},reason="timeout"}}': 280 * scale,
        f'tidegate_closed_batches_total{{{LABELS},reason="full"}}': 30 * scale,
        f'tidegate_closed_batch_requests_total{{{LABELS},reason="full"}}': 300 * scale,
        f'tidegate_closed_batch_rows_total{{{LABELS},reason="full"}}': 1920 * scale,
        f"tidegate_max_batch_rows{{{LABELS}}}": 64,
        f"tidegate_batch_timeout_seconds{{{LABELS}}}": 0.01,
        f"tidegate_batch_concurrency{{{LABELS}}}": 2,
        f'tidegate_stage_seconds_sum{{{LABELS},stage="queue"}}': 4.4 * scale,
        f'tidegate_stage_seconds_count{{{LABELS},stage="queue"}}': 440 * scale,
        f'tidegate_stage_seconds_sum{{{LABELS},stage="run"}}': 0.88 * scale,
        f'tidegate_stage_seconds_count{{{LABELS},stage="run"}}': 440 * scale,
        'tidegate_queue_rejections_total{model="m",version="3"}': 5 * scale,
        'tidegate_max_batch_rows{model="m",version="3",signature="never ran"}': 64,
        "tidegate_log_waiting_bytes": 7,
    }


def test_counters_become_batches_by_signature() -> None:
    (found,) = signature_batches(counters())
    assert (found.model, found.version, found.signature) == ("m", 3, "serving_default")
    assert found.closed == {"timeout": Closed(70, 140, 280), "full": Closed(30, 300, 1920)}
    assert (found.max_rows, found.timeout, found.concurrency, found.rejections) == (64, 0.01, 2, 5)
    assert found.queue_seconds == pytest.approx(0.01)
    assert found.run_seconds == pytest.approx(0.002)
    assert found.share("timeout") == 0.7
    assert found.share("idle") == 0
    assert (found.all.rows_each, found.all.requests_each) == (22, 4.4)


def test_a_span_of_time_is_the_difference_of_its_ends() -> None:
    (found,) = signature_batches(counters(3), counters())
    assert found.closed["timeout"] == Closed(140, 280, 560)
    assert found.queue_seconds == pytest.approx(0.01)
    assert (found.rejections, found.max_rows) == (10, 64)
    assert signature_batches(counters(), counters()) == []


def test_names_are_what_they_were_before_they_became_labels() -> None:
    sample = 'tidegate_closed_batches_total{model="a\\"b,\\\\\\n}",version="1",signature="s",reason="idle"}'
    (found,) = signature_batches({sample: 1})
    assert found.model == 'a"b,\\\n}'


def test_few_batches_say_nothing() -> None:
    assert only(batches(timeout=(19, 19, 19))) == "batches so far: 19, too few to tell"


def test_a_timeout_in_which_nobody_comes_gains_nothing() -> None:
    sentence = only(batches(timeout=(70, 80, 140), idle=(30, 30, 30)))
    assert sentence.startswith("70 % of batches closed by time-out at 2.0 rows of 64, after 10 ms, and hardly a second")
    assert "set timeout_us to 0" in sentence


def test_a_timeout_longer_than_a_run_is_to_be_about_a_run() -> None:
    sentence = only(batches(timeout=(100, 400, 400)))
    assert "where a run takes 2 ms: lower timeout_us to about 2000, or to 0" in sentence


def test_a_short_timeout_that_does_not_fill_batches_is_told_so() -> None:
    sentence = only(replace(batches(timeout=(100, 400, 400)), timeout=0.001))
    assert "batches do not fill" in sentence
    assert "max_batch_rows to about 8" in sentence


@pytest.mark.parametrize("closed", [(49, 49, 98), (100, 100, 3200)], ids=["seldom", "half full"])
def test_a_timeout_that_does_its_work_is_left_alone(closed: tuple[float, float, float]) -> None:
    assert only(batches(timeout=closed, full=(51, 510, 3264))).startswith("nothing to change")


def test_full_batches_are_too_small_only_where_requests_wait_longer_than_the_model_runs() -> None:
    full = batches(full=(90, 900, 5760), idle=(10, 10, 10))
    assert only(full).startswith("nothing to change: 9.1 requests share a batch of 57.7 rows")
    sentence = only(replace(full, queue_seconds=0.02))
    assert sentence.startswith(
        "90 % of batches closed full at 64.0 rows of 64, and requests wait 20 ms for runs of 2 ms"
    )
    assert "concurrency (now 1)" in sentence


def test_many_shapes_cut_batches_and_cuts_refusals_are_told() -> None:
    assert "set pad_variable_length_inputs" in only(batches(shapes=(20, 20, 20), idle=(80, 80, 80)))
    assert only(batches(shapes=(19, 19, 19), idle=(81, 81, 81))).startswith("nothing to change")
    assert "one request that shares with no other" in only(batches(alone=(50, 50, 50), idle=(50, 60, 60)))
    assert "longer deadlines" in only(batches(deadline=(5, 50, 50), idle=(95, 950, 950)))
    assert only(replace(batches(idle=(30, 30, 30)), rejections=4)).startswith("4 requests of this version were refused")


def test_requests_that_come_one_by_one_need_nothing() -> None:
    assert only(batches(idle=(100, 100, 100))) == (
        "nothing to change: requests come one by one, and none waits for another"
    )


def test_several_findings_are_all_told() -> None:
    sentences = list(advice(replace(batches(timeout=(60, 60, 60), shapes=(40, 40, 40)), rejections=1)))
    assert [word in sentence for word, sentence in zip(("time-out", "shapes", "refused"), sentences, strict=True)] == [
        True,
        True,
        True,
    ]
