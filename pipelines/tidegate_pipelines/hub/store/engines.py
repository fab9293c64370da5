"""What engines said of themselves: how they are, what they serve, their traffic by the hour, and their skew."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Float, Index
from sqlalchemy.orm import Mapped, mapped_column

from tidegate_pipelines.hub.store.base import Base, Counted, Document, Json, LongText, Name, Number, Word


class EngineRow(Base):
    """An engine by its name in the config. `state` is `UP` or `AWAY`, since `since`; `problem` says why it is away.

    `last_seen` is when it last answered, and `status` what it then said of itself.
    """

    __tablename__ = "engines"

    name: Mapped[Name] = mapped_column(primary_key=True)
    addresses: Mapped[LongText]
    state: Mapped[Word]
    since: Mapped[datetime]
    last_seen: Mapped[datetime | None]
    problem: Mapped[LongText] = mapped_column(default="")
    status: Mapped[Document] = mapped_column(default=dict)


class ServedVersionRow(Base):
    """A version in an engine. `label` holds its labels with commas between; ordinary clients get what is `ordinary`,
    which nothing is where the model is switched off."""

    __tablename__ = "served_versions"
    __table_args__ = (Index("ix_served_versions_model", "model"),)

    engine: Mapped[Name] = mapped_column(primary_key=True)
    model: Mapped[Name] = mapped_column(primary_key=True)
    version: Mapped[Number] = mapped_column(primary_key=True, autoincrement=False)
    state: Mapped[Word]
    label: Mapped[Name] = mapped_column(default="")
    ordinary: Mapped[bool] = mapped_column(default=False)
    since: Mapped[datetime]
    error: Mapped[LongText] = mapped_column(default="")


class TrafficRow(Base):
    """What one version was asked in one hour (UTC, its beginning). `latency` counts answers by the upper end of their
    bucket in seconds, as text; `p50` and `p99` are read from it, in seconds."""

    __tablename__ = "traffic"
    __table_args__ = (Index("ix_traffic_model_hour", "model", "hour"),)

    engine: Mapped[Name] = mapped_column(primary_key=True)
    model: Mapped[Name] = mapped_column(primary_key=True)
    version: Mapped[Number] = mapped_column(primary_key=True, autoincrement=False)
    hour: Mapped[datetime] = mapped_column(primary_key=True)
    requests: Mapped[Number] = mapped_column(default=0)
    errors: Mapped[Number] = mapped_column(default=0)
    p50: Mapped[float | None] = mapped_column(Float)
    p99: Mapped[float | None] = mapped_column(Float)
    latency: Mapped[Document | None]


class SkewWindowRow(Base):
    """One feature of one model in one window of event time; the feature `` is the model as a whole.

    `state` is the worst outcome of its findings (PASS, WARN, FAIL, ...), `effect` how large the difference is, in the
    units of its finding; `cause` says in words what changed. `shares` are the shares of rows in each bin of the
    feature's profile, empty where they were not counted.
    """

    __tablename__ = "skew_windows"
    __table_args__ = (
        Index("uq_skew_windows_window", "model", "window_end", "feature", "version", unique=True),
        Index("ix_skew_windows_model_feature", "model", "feature", "window_end"),
    )

    id: Mapped[Counted]
    model: Mapped[Name]
    version: Mapped[Number]
    feature: Mapped[Name]
    window_start: Mapped[datetime]
    window_end: Mapped[datetime]
    state: Mapped[Word]
    effect: Mapped[float | None] = mapped_column(Float)
    rows: Mapped[Number] = mapped_column(default=0)
    cause: Mapped[LongText] = mapped_column(default="")
    shares: Mapped[list[float]] = mapped_column(Json, default=list)


class FeatureProfileRow(Base):
    """A feature in training: `document` has the bins' `labels`, and in `shares` how rows spread over them."""

    __tablename__ = "feature_profiles"

    model: Mapped[Name] = mapped_column(primary_key=True)
    version: Mapped[Number] = mapped_column(primary_key=True, autoincrement=False)
    feature: Mapped[Name] = mapped_column(primary_key=True)
    document: Mapped[Document] = mapped_column(default=dict)
