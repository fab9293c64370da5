"""The one family of errors, each with a stable code; protocols map codes to numbers here and nowhere else.

Every part of Tidegate raises these for what a user can cause or mend; they travel as `code` and text through
status, events, gRPC and REST.

    TidegateError
      InvalidInput        invalid_input         a value that cannot be used
        OutOfRange        out_of_range          an op of a graph went past what there is
      NotFound            not_found             a model, version, label or file that is not there
      AlreadyExists       already_exists        a name or version that is taken
      FailedPrecondition  failed_precondition   right request, wrong moment
        Conflict          conflict              somebody else changed it meanwhile
        Superseded        superseded            another release took this one's place
      NotAdmitted         not_admitted          no valid verdict: the gate stays shut
        Tampered          tampered              bytes differ from what was signed or listed
      Unauthenticated     unauthenticated       nobody knows who asks, or who answers
      PermissionRefused   permission_refused    needs the engine operator's leave
      ResourceExhausted   resource_exhausted    a queue, a budget or a limit is full
      DeadlinePassed      deadline_passed       no answer in time
      Cancelled           cancelled             nobody wants the answer any more
      Unavailable         unavailable           not reachable now; trying again may help
      Unsupported         unsupported           a format, platform or method this build does not know
      ModelFailed         model_failed          the model's own code raised, crashed or answered nonsense
        OpAborted         op_aborted            an op of a graph was broken off
        OpLostData        op_lost_data          an op of a graph met bytes that are damaged
        OpUnknown         op_unknown            an op of a graph gave no kind of error
      Refused             refused               a gate said no
      NotServed           not_served            models that were asked for did not come up
"""

from __future__ import annotations

from typing import ClassVar

from tidegate_serving.contract.words import cut

_MOST_CHARACTERS = 16_000
_MOST_DETAILS = 256_000


class TidegateError(Exception):
    """Base of all errors. The text names the thing, the value and the cure, in at most 16,000 characters; `details`,
    where there are any, is a list of errors in JSON for programs, and none where it is above 256,000."""

    code: ClassVar[str] = "internal"
    grpc_code: ClassVar[int] = 13
    ended_process: ClassVar[bool] = False
    """Whether a model's process has ended on what failed, so that trying it again costs the start of another."""

    def __init__(self, message: str, details: str | None = None) -> None:
        message = cut(str(message), _MOST_CHARACTERS)
        super().__init__(message)
        self.message = message
        self.details = details if details is not None and len(details) <= _MOST_DETAILS else None


class InvalidInput(TidegateError):
    """A value that cannot be used, such as a wrong dtype or a malformed file."""

    code = "invalid_input"
    grpc_code = 3


class OutOfRange(InvalidInput):
    """An op of a graph went past what there is, such as the end of a queue."""

    code = "out_of_range"
    grpc_code = 11


class NotFound(TidegateError):
    """A model, version, label or file that is not there."""

    code = "not_found"
    grpc_code = 5


class AlreadyExists(TidegateError):
    """A name or version that is taken."""

    code = "already_exists"
    grpc_code = 6


class FailedPrecondition(TidegateError):
    """The right request at the wrong moment."""

    code = "failed_precondition"
    grpc_code = 9


class Conflict(FailedPrecondition):
    """Somebody else changed the thing since the caller looked; look again, then decide."""

    code = "conflict"
    grpc_code = 10


class Superseded(FailedPrecondition):
    """Another release of the same model took this one's place; the text says which version serves instead."""

    code = "superseded"


class NotAdmitted(TidegateError):
    """No valid verdict admits this version."""

    code = "not_admitted"
    grpc_code = 9


class Tampered(NotAdmitted):
    """Bytes differ from what a manifest lists or a verdict signed; the text names the file."""

    code = "tampered"
    grpc_code = 15


class Unauthenticated(TidegateError):
    """A token or certificate is missing, unknown or expired, the caller's or the server's."""

    code = "unauthenticated"
    grpc_code = 16


class PermissionRefused(TidegateError):
    """Needs the leave of whoever operates the engine, such as loading pickle."""

    code = "permission_refused"
    grpc_code = 7


class ResourceExhausted(TidegateError):
    """A queue, a memory budget or a limit is full; the text says which and how large it is."""

    code = "resource_exhausted"
    grpc_code = 8


class DeadlinePassed(TidegateError):
    """No answer within the time allowed."""

    code = "deadline_passed"
    grpc_code = 4


class Cancelled(TidegateError):
    """Nobody wants the answer any more."""

    code = "cancelled"
    grpc_code = 1


class Unavailable(TidegateError):
    """Not reachable now; trying again may help."""

    code = "unavailable"
    grpc_code = 14


class Unsupported(TidegateError):
    """A format, platform or method that this build does not know."""

    code = "unsupported"
    grpc_code = 12


class ModelFailed(TidegateError):
    """The model's own code raised, crashed or answered something that its signature does not allow."""

    code = "model_failed"
    grpc_code = 13


class OpAborted(ModelFailed):
    """An op of a graph was broken off, as clients of TensorFlow Serving are told."""

    code = "op_aborted"
    grpc_code = 10


class OpLostData(ModelFailed):
    """An op of a graph met bytes that are damaged, as clients of TensorFlow Serving are told."""

    code = "op_lost_data"
    grpc_code = 15


class OpUnknown(ModelFailed):
    """An op of a graph failed and gave no kind of error, as clients of TensorFlow Serving are told."""

    code = "op_unknown"
    grpc_code = 2


class ProcessEnded(ModelFailed):
    """A call of a model's that ended its process; clients hear of it as of any other failure of the model."""

    ended_process = True


class Refused(TidegateError):
    """A gate said no; the text is the verdict's one plain sentence."""

    code = "refused"
    grpc_code = 9


class NotServed(TidegateError):
    """Models that a request asked for did not come up, for reasons of their own; the text names each."""

    code = "not_served"
    grpc_code = 2


def error_from(grpc_code: int, message: str) -> TidegateError:
    """The error that a canonical gRPC status code (1 to 16) stands for, for clients that receive one."""
    return _BY_GRPC_CODE.get(grpc_code, TidegateError)(message)


def error_of(code: str, message: str, details: str | None = None) -> TidegateError:
    """The error that a stable code such as `tampered` stands for, for clients that read one from a status or event."""
    return _BY_CODE.get(code, TidegateError)(message, details)


_BY_GRPC_CODE: dict[int, type[TidegateError]] = {
    kind.grpc_code: kind
    for kind in (
        Cancelled,
        InvalidInput,
        DeadlinePassed,
        OutOfRange,
        NotFound,
        AlreadyExists,
        Unauthenticated,
        PermissionRefused,
        ResourceExhausted,
        FailedPrecondition,
        Conflict,
        Unsupported,
        ModelFailed,
        Unavailable,
        Tampered,
    )
}

_OPS: tuple[type[TidegateError], ...] = (OpAborted, OpLostData, OpUnknown)
_OTHERS: tuple[type[TidegateError], ...] = (Superseded, NotAdmitted, Refused, NotServed)
_KINDS: tuple[type[TidegateError], ...] = (*_BY_GRPC_CODE.values(), *_OPS, *_OTHERS)
_BY_CODE: dict[str, type[TidegateError]] = {kind.code: kind for kind in _KINDS}
