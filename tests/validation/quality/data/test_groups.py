"""Which examples belong together: those of a day, or of a bucket of the entity."""

from __future__ import annotations

import numpy as np
import pytest
from tests.validation import world

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.quality.data.groups import groups_of


def test_groups_are_days_where_there_are_enough_else_buckets_of_the_entity() -> None:
    month, week = world.parcels(900, seed=1, days=30), world.parcels(900, seed=1, days=7)
    days = groups_of(month, world.TIME, None)
    assert (days.words, days.clustered) == ("30 days", True)
    first = month[world.TIME].to_numpy() // world.DAY
    assert np.array_equal(days.numbers, first - first.min())
    by_chance = groups_of(week, world.TIME, None)
    assert (by_chance.words, by_chance.clustered) == ("40 random buckets", False)
    named = world.with_column(week, "user", [f"u{row % 90}" for row in range(900)])
    users = groups_of(named, world.TIME, "user")
    assert (users.words, users.clustered) == ("40 buckets of `user`", True)
    assert all(len(set(users.numbers[user::90].tolist())) == 1 for user in range(90))
    assert not groups_of(world.with_column(week, "id", list(range(900))), None, "id").clustered
    with pytest.raises(InvalidInput, match="entity 'nobody' is no column"):
        groups_of(week, None, "nobody")
