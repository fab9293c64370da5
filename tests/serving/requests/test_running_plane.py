"""What the plane is told about a servable's versions: always the whole picture, and never an older one last."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.lifecycle.events import EventBus
from tidegate_serving.lifecycle.monitor import StateMonitor
from tidegate_serving.requests.running_plane import ModelStates
from tidegate_serving.requests.running_plane import State as Row

ONE, TWO = ServableId("m", 1), ServableId("m", 2)


def test_every_change_tells_all_versions_newest_first() -> None:
    events, told = EventBus(), list[tuple[str, Sequence[Row]]]()
    states = ModelStates(StateMonitor(events), lambda model, rows: told.append((model, rows)))
    events.subscribe(states.heard)
    events.publish(StateChange(ONE, State.AVAILABLE))
    events.publish(StateChange(TWO, State.LOADING))
    failed = InvalidInput("cut short")
    events.publish(StateChange(TWO, State.END, error_code=failed.code, error_message=str(failed)))
    one: Row = (1, 30, 0, "")
    assert told == [("m", [one]), ("m", [(2, 20, 0, ""), one]), ("m", [(2, 50, 3, "cut short"), one])]


def test_a_slow_teller_does_not_end_on_an_older_picture() -> None:
    events, told = EventBus(), list[int]()
    first_tells, go = threading.Event(), threading.Event()

    def tell(model: str, rows: Sequence[Row]) -> None:
        if not first_tells.is_set():
            first_tells.set()
            assert go.wait(20)
        told.append(len(rows))

    events.subscribe(ModelStates(StateMonitor(events), tell).heard)
    threads = [threading.Thread(target=events.publish, args=(StateChange(one, State.AVAILABLE),)) for one in (ONE, TWO)]
    threads[0].start()
    assert first_tells.wait(20)
    threads[1].start()
    go.set()
    for thread in threads:
        thread.join(20)
    assert told[-1] == 2
