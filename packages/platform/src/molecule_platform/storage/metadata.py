"""What every table shares: one catalogue, and the columns that most of them have."""

from typing import Any

from sqlalchemy import Column, ColumnElement, ForeignKey, Index, MetaData

from molecule_platform.storage.columns import StringList, UtcTime

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def created_at() -> Column[object]:
    """When the row came to be."""
    return Column("created_at", UtcTime, nullable=False)


def org() -> Column[object]:
    """The organisation that the row belongs to."""
    return Column("org_id", StringList, ForeignKey("orgs.id"), nullable=False)


def workspace(nullable: bool = False) -> Column[object]:
    """The workspace that the row belongs to."""
    return Column("workspace_id", StringList, ForeignKey("workspaces.id"), nullable=nullable)


def where_given(name: str, column: Column[Any], *more: Column[Any], unique: bool = False) -> None:
    """An index of the few rows that have a value: the many that have none pay nothing for it."""
    where_true(name, column.is_not(None), column, *more, unique=unique)


def where_true(
    name: str, condition: ColumnElement[bool], *columns: Column[Any], unique: bool = False
) -> None:
    """An index of the rows of which that is true."""
    Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)
