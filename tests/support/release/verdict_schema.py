"""Holds every verdict that is written out anywhere in the suite against the published schema."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tidegate_serving.admission import Verdict, verdict_schema


@functools.cache
def _validator() -> Any:
    import jsonschema

    schema = verdict_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@contextmanager
def verdicts_keep_to_their_schema() -> Iterator[None]:
    """From now on a verdict that does not raises where it is turned into a document."""
    written = Verdict.to_dict

    def checked(verdict: Verdict) -> dict[str, Any]:
        document = written(verdict)
        _validator().validate(document)
        return document

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Verdict, "to_dict", checked)
        yield
