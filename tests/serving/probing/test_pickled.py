"""Pickles that another version of scikit-learn made are told of, whatever a model does with warnings."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator

import pytest
import sklearn
from sklearn.linear_model import Ridge

from tidegate_serving.probing.pickled import PickledBy


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[PickledBy]:
    monkeypatch.setattr(warnings, "warn", warnings.warn)
    found = PickledBy()
    with warnings.catch_warnings(record=True, action="default"):
        found.watch()
        yield found


def made_by(version: str) -> bytes:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sklearn.base.__version__", version)
        return pickle.dumps(Ridge().fit([[1.0], [2.0]], [1.0, 2.0]))


@pytest.mark.parametrize("ignored", [False, True])
def test_versions_are_told_once(heard: PickledBy, ignored: bool) -> None:
    """Models often ignore all warnings."""
    if ignored:
        warnings.filterwarnings("ignore")
    for _ in range(2):
        pickle.loads(made_by("1.1.3"))
    assert heard.look() == [f"scikit-learn 1.1.3, and {sklearn.__version__} loads it here"]


def test_a_pickle_of_the_same_version_and_other_warnings_are_no_news(heard: PickledBy) -> None:
    pickle.loads(made_by(sklearn.__version__))
    with pytest.warns(UserWarning, match="other") as caught:
        warnings.warn("another one", stacklevel=1)
    assert [one.filename for one in caught] == [__file__]
    assert heard.look() == []
