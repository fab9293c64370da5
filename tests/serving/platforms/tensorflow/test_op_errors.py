"""What an op raises keeps its code, in the engine and across a worker's channel."""

from __future__ import annotations

import pytest

from tidegate_serving.contract.errors import InvalidInput, ModelFailed, error_of
from tidegate_serving.platforms.tensorflow.session import error_of_op, import_tensorflow

KINDS = {
    1: "CancelledError",
    2: "UnknownError",
    3: "InvalidArgumentError",
    5: "NotFoundError",
    8: "ResourceExhaustedError",
    9: "FailedPreconditionError",
    10: "AbortedError",
    11: "OutOfRangeError",
    12: "UnimplementedError",
    13: "InternalError",
    14: "UnavailableError",
    15: "DataLossError",
}


@pytest.mark.parametrize("code", KINDS)
def test_an_op_keeps_its_code(code: int) -> None:
    raised = getattr(import_tensorflow().errors, KINDS[code])(None, None, "the end of it")
    found = error_of_op(raised)
    assert (found.grpc_code, found.message) == (code, "the end of it")
    assert (error_of(found.code, found.message).grpc_code, type(error_of(found.code, ""))) == (code, type(found))


def test_whose_fault_it_is_stays_as_it_was() -> None:
    errors = import_tensorflow().errors
    assert isinstance(error_of_op(errors.OutOfRangeError(None, None, "")), InvalidInput)
    assert all(
        isinstance(error_of_op(kind(None, None, "")), ModelFailed)
        for kind in (errors.AbortedError, errors.DataLossError, errors.UnknownError, errors.InternalError)
    )
