"""Rows as JSON documents; what programs may rely on is what stands here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from tidegate_pipelines.hub.store import ReleaseState


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("UTC has no date for it") from error


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A moment as programs send it, RFC 3339 with its zone; in UTC."""


def _no_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("input should be a whole number")
    return value


WholeNumber = Annotated[int, BeforeValidator(_no_truth)]
"""A number as programs send it; true and false, which Python takes for 1 and 0, are none."""


class Document(BaseModel):
    """Made of a row's attributes; times are RFC 3339 in UTC."""

    model_config = ConfigDict(from_attributes=True)


class Release(Document):
    """A release; what each field means stands with the table."""

    id: int
    model: str
    version: int
    source: str
    requested_by: str
    requested_at: datetime
    reason: str
    settings: dict[str, Any]
    state: ReleaseState
    stage: str
    directory: str
    digest: str
    sentence: str
    finished_at: datetime | None
    attempts: int
    not_before: datetime | None
    external_run: str


class Event(Document):
    """What happened in a release."""

    id: int
    release_id: int
    at: datetime
    stage: str
    kind: str
    text: str
    data: dict[str, Any]


class Verdict(Document):
    """A verdict without its document."""

    id: int
    release_id: int | None
    model: str
    version: int
    digest: str
    allowed: bool
    sentence: str
    signed_at: datetime
    key_id: str
    report: str


class WholeVerdict(Verdict):
    """A verdict with its document, as the gates signed it."""

    document: dict[str, Any]


class Engine(Document):
    """An engine; `since` is since when it is `UP` or `AWAY`."""

    name: str
    addresses: str
    state: str
    since: datetime
    last_seen: datetime | None
    problem: str
    status: dict[str, Any]


class Registry(Document):
    """A registry; `since` is since when it is `UP` or `AWAY`."""

    name: str
    address: str
    state: str
    since: datetime
    last_seen: datetime | None
    problem: str


class ServedVersion(Document):
    """A version in an engine."""

    engine: str
    model: str
    version: int
    state: str
    label: str
    ordinary: bool
    since: datetime
    error: str


class Traffic(Document):
    """One hour of a version in an engine."""

    engine: str
    model: str
    version: int
    hour: datetime
    requests: int
    errors: int
    p50: float | None
    p99: float | None


class SkewWindow(Document):
    """One feature in one window; the feature `` is the model as a whole."""

    model: str
    version: int
    feature: str
    window_start: datetime
    window_end: datetime
    state: str
    effect: float | None
    rows: int
    cause: str


class Model(Document):
    """A model by name, and the team that it belongs to."""

    name: str
    team: str
    first_seen: datetime


class WholeModel(Model):
    """A model, what is served of it, and its newest releases."""

    served: list[ServedVersion]
    releases: list[Release]


class Deliveries(Document):
    """How many webhooks came, by outcome and reason; accepted ones of the last week."""

    accepted: int
    refused: dict[str, int]


class ReleaseRequest(BaseModel):
    """What a program asks to be released. `key` makes it arrive once however often it is sent."""

    model_config = ConfigDict(extra="forbid")

    model: str
    version: WholeNumber
    reason: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    key: str | None = Field(default=None, max_length=200)


class Reason(BaseModel):
    """Why somebody does something."""

    model_config = ConfigDict(extra="forbid")

    reason: str = ""
