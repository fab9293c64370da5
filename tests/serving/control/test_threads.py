"""What is said where threads cannot be started, and where something else is wrong meanwhile."""

from __future__ import annotations

import pytest

from tidegate_serving.contract.errors import ResourceExhausted
from tidegate_serving.control.threads import starting_threads


def test_a_system_without_threads_is_told_with_what_to_raise() -> None:
    told = r"the engine cannot start its threads \(.*\): raise the limit"
    with pytest.raises(ResourceExhausted, match=told), starting_threads("the engine"):
        raise RuntimeError("can't start new thread")


def test_another_fault_is_none_of_the_systems() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"), starting_threads("the engine"):
        raise RuntimeError("no running event loop")
