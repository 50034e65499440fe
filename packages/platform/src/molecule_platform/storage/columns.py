"""Column types that read the same on both dialects."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import JSON, TIMESTAMP, BigInteger, CheckConstraint, Dialect, Integer, String, Text
from sqlalchemy.types import TypeDecorator, TypeEngine

from molecule_wire import times


class UtcTime(TypeDecorator[datetime]):
    """An aware UTC time: `timestamptz` on PostgreSQL, sortable RFC 3339 text on SQLite."""

    impl = TIMESTAMP(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Text where the database has no type for times."""
        return dialect.type_descriptor(String(24) if dialect.name == "sqlite" else TIMESTAMP(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """To the database."""
        return times.format_time(value) if value is not None and dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """From the database."""
        if value is None:
            return None
        return times.parse_time(value) if dialect.name == "sqlite" else value.astimezone(UTC)


class StringList(TypeDecorator[str]):
    """Text. PostgreSQL cannot keep a NUL, so it becomes the sign for what cannot be shown."""

    impl = Text
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Any:
        """Nothing to do on SQLite, which keeps everything."""
        return None if dialect.name == "sqlite" else super().bind_processor(dialect)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """To the database."""
        return None if value is None else value.replace("\0", "\ufffd")


# SQLite gives a key of exactly this type no index of its own.
LogNumber = BigInteger().with_variant(Integer, "sqlite")

Json = JSON(none_as_null=True)


def json_text(value: Any) -> str:
    """What a JSON column keeps of a value."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        # Half a surrogate pair is no text, but can be kept as its escape.
        return json.dumps(value)


def one_of(column: str, values: tuple[str, ...]) -> CheckConstraint:
    """A check that lists every value a status column may have."""
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=f"{column}_known")


def one_by_one(column: str, values: tuple[str, ...]) -> CheckConstraint:
    """The same for what every message writes: for an IN, SQLite builds an index of the list each time."""
    compared = " OR ".join(f"{column} = '{value}'" for value in values)
    return CheckConstraint(compared, name=f"{column}_known")
