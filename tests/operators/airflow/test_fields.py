"""An operator's arguments are the fields of the request that it hands on: none is left out, none is its own."""

from __future__ import annotations

import inspect
from dataclasses import fields
from types import SimpleNamespace

import pytest

from tidegate_operators.airflow.operators import PublishModelOperator, ValidateModelOperator
from tidegate_operators.airflow.operators.fields import given
from tidegate_operators.airflow.operators.publish import PUBLICATION
from tidegate_operators.airflow.operators.validate import EVIDENCE
from tidegate_operators.steps import Evidence, Publication


@pytest.mark.parametrize(
    ("operator", "names", "request_type", "own"),
    [
        (ValidateModelOperator, EVIDENCE, Evidence, {"directory", "private_key", "tidegate_conn_id"}),
        (PublishModelOperator, PUBLICATION, Publication, set()),
    ],
)
def test_arguments_are_the_fields_of_the_request(
    operator: type, names: tuple[str, ...], request_type: type, own: set[str]
) -> None:
    arguments = set(inspect.signature(operator.__init__).parameters) - {"self", "kwargs"}  # type: ignore[misc]
    assert arguments == {*names, *own}
    everything = SimpleNamespace(**dict.fromkeys(names, "said"))
    assert given(everything, names).keys() == {one.name for one in fields(request_type)}
    assert arguments == set(operator.template_fields)  # type: ignore[attr-defined]


def test_what_a_template_left_empty_keeps_the_default() -> None:
    rendered = SimpleNamespace(**{**dict.fromkeys(EVIDENCE, ""), "held_out": "june.parquet", "label_column": None})
    assert Evidence(**given(rendered, EVIDENCE)) == Evidence("june.parquet")
