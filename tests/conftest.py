"""What every test gets: each verdict that is written out anywhere in the suite is held against the published schema."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

from tidegate_serving.contract.verdict import Verdict, verdict_schema


@functools.cache
def _validator() -> Any:
    import jsonschema

    schema = verdict_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture(autouse=True, scope="session")
def _verdicts_keep_to_their_schema() -> Iterator[None]:
    written = Verdict.to_dict

    def checked(verdict: Verdict) -> dict[str, Any]:
        document = written(verdict)
        _validator().validate(document)
        return document

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Verdict, "to_dict", checked)
        yield
