"""What all tables share: their metadata, moments that know their zone, JSON, and keys that count up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Integer, MetaData, String, Text, TypeDecorator
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, mapped_column

MOST_NAME = 255
MOST_WORD = 64
_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class UtcTime(TypeDecorator[datetime]):
    """A moment in UTC: SQLite keeps no zone, so it is taken off on the way in and put back on the way out."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuses a moment without a zone, which nobody could compare."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value.isoformat()} has no time zone: give it one")
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """With its zone again."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


Json = JSON().with_variant(JSONB(), "postgresql")
Name = Annotated[str, mapped_column(String(MOST_NAME))]
Word = Annotated[str, mapped_column(String(MOST_WORD))]
LongText = Annotated[str, mapped_column(Text)]
Number = Annotated[int, mapped_column(BigInteger)]
# SQLite counts up by itself only in a column of type INTEGER.
Counted = Annotated[
    int, mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)
]
Document = dict[str, Any]


class Base(DeclarativeBase):
    """Of every table of the hub."""

    metadata = MetaData(naming_convention=_NAMES)
    type_annotation_map = {datetime: UtcTime, Document: Json}  # noqa: RUF012
