"""What came from the registry: webhook deliveries, each once, and the state of each model as it was last seen."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger
from sqlalchemy.orm import Mapped, mapped_column

from tidegate_pipelines.hub.store.base import Base, LongText, Name, Word


class RegistryRow(Base):
    """A registry by its name in the config. `state` is `UP` or `AWAY`, since `since`; `problem` says why it is away, or
    what it refuses to be told while it is up."""

    __tablename__ = "registries"

    name: Mapped[Name] = mapped_column(primary_key=True)
    address: Mapped[LongText]
    state: Mapped[Word]
    since: Mapped[datetime]
    last_seen: Mapped[datetime | None]
    problem: Mapped[LongText] = mapped_column(default="")


class DeliveryRow(Base):
    """One webhook delivery by the sender's id; `outcome` is `accepted` or `refused`, `reason` why.

    Those that were refused have no id that could be believed, so one row counts those of an hour and a reason.
    """

    __tablename__ = "deliveries"

    id: Mapped[Name] = mapped_column(primary_key=True)
    received_at: Mapped[datetime] = mapped_column(index=True)
    outcome: Mapped[Word]
    reason: Mapped[LongText] = mapped_column(default="")
    count: Mapped[int] = mapped_column(default=1)


class RegisteredModelRow(Base):
    """The version that a registry wants released, as it was last seen; None for none.

    `registry_name` is the registry's in the hub's config. `registered_at` is when the model was registered, in
    milliseconds since 1970 by the registry's clock, where it wants a version of it: a model that is deleted and
    registered again begins its numbers again. `changed_at` is when this version was seen first,
    `seen_at` when somebody looked last, `changes` how often it changed, which keeps requests for one version apart.
    `told_serving` is the version that the registry was told serves.
    """

    __tablename__ = "registered_models"

    registry_name: Mapped[Name] = mapped_column(primary_key=True)
    model: Mapped[Name] = mapped_column(primary_key=True)
    version: Mapped[int | None] = mapped_column(BigInteger)
    registered_at: Mapped[int | None] = mapped_column(BigInteger)
    changed_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    changes: Mapped[int] = mapped_column(default=0)
    told_serving: Mapped[int | None] = mapped_column(BigInteger)
