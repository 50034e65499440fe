"""Statements that are compiled once and then run as plain SQL text.

Building and compiling a statement costs ten times what SQLite needs to run it. What runs for every message is
therefore written once, with named parameters, compiled at its first use on a dialect, and handed to the
driver's own cursor.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

from sqlalchemy import Column, Connection, Dialect, Float
from sqlalchemy.sql.expression import Executable
from sqlalchemy.sql.selectable import TypedReturnsRows
from sqlalchemy.types import TypeEngine

from molecule_platform.storage.columns import UtcTime
from molecule_wire import times

_Convert = Callable[[Any], Any] | None

# One moment stands in many rows.
_written = functools.lru_cache(maxsize=256)(times.format_time)
_read = functools.lru_cache(maxsize=256)(times.parse_time)


class _Compiled:
    """One statement on one dialect: its text, its parameters in order, and how values are converted."""

    def __init__(
        self, statement: Any, dialect: Dialect, names: Sequence[str] | None, columns: Sequence[Column[Any]]
    ) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=names)
        self.text = str(compiled)
        order: list[str] = compiled.positiontup
        self._in_order = _getter(order)
        self._constants = {name: compiled.params[name] for name in order if not compiled.binds[name].required}
        self._inputs = [
            (place, convert)
            for place, name in enumerate(order)
            if (convert := _to(compiled.binds[name].type, dialect)) is not None
        ]
        self._names = [column.name for column in columns]
        self._outputs = [
            (column.name, convert)
            for column in columns
            if (convert := _from(column.type, dialect)) is not None
        ]

    def values(self, parameters: Mapping[str, Any]) -> list[Any]:
        """The parameters in the order of the text, among the constants of the statement."""
        values = list(self._in_order({**self._constants, **parameters} if self._constants else parameters))
        for place, convert in self._inputs:
            if values[place] is not None:
                values[place] = convert(values[place])
        return values

    def row(self, row: Sequence[Any]) -> dict[str, Any]:
        """A row by the names of its columns."""
        named = dict(zip(self._names, row, strict=True))
        for name, convert in self._outputs:
            named[name] = convert(named[name])
        return named


def _getter(names: Sequence[str]) -> Callable[[Mapping[str, Any]], Iterable[Any]]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda given: [given[name] for name in names]


class Prepared:
    """A statement with named parameters. `columns` are what it returns, `names` what an INSERT is given."""

    def __init__(
        self,
        statement: Executable | TypedReturnsRows[*tuple[Any, ...]],
        columns: Sequence[Column[Any]] = (),
        names: Sequence[str] | None = None,
    ) -> None:
        self._statement = statement
        self._columns = columns
        self._names = names
        self._by_dialect: dict[str, _Compiled] = {}

    def run(self, connection: Connection, parameters: Mapping[str, Any]) -> None:
        """Execute."""
        self._execute(connection, parameters)

    def run_all(self, connection: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
        """Execute for each of several sets of parameters."""
        compiled = self._compiled(connection)
        connection.connection.cursor().executemany(compiled.text, [compiled.values(row) for row in rows])

    def count(self, connection: Connection, parameters: Mapping[str, Any]) -> int:
        """Execute; how many rows it changed."""
        return self._execute(connection, parameters).rowcount

    def scalar(self, connection: Connection, parameters: Mapping[str, Any]) -> Any:
        """Execute; the one value of the one row, as the driver gives it."""
        return self._execute(connection, parameters).fetchone()[0]

    def rows(self, connection: Connection, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Execute; the rows by the names of their columns."""
        compiled = self._compiled(connection)
        return [compiled.row(row) for row in self._execute(connection, parameters).fetchall()]

    def first(self, connection: Connection, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
        """Execute; the first row by the names of its columns."""
        row = self._execute(connection, parameters).fetchone()
        return None if row is None else self._compiled(connection).row(row)

    def _execute(self, connection: Connection, parameters: Mapping[str, Any]) -> Any:
        compiled = self._compiled(connection)
        cursor = connection.connection.cursor()
        cursor.execute(compiled.text, compiled.values(parameters))
        return cursor

    def _compiled(self, connection: Connection) -> _Compiled:
        dialect = connection.dialect
        found = self._by_dialect.get(dialect.name)
        if found is None:
            found = _Compiled(self._statement, dialect, self._names, self._columns)
            self._by_dialect[dialect.name] = found
        return found


def _to(kind: TypeEngine[Any], dialect: Dialect) -> _Convert:
    if isinstance(kind, UtcTime) and dialect.name == "sqlite":
        return _written
    return kind.dialect_impl(dialect).bind_processor(dialect)


def _moment(value: str | None) -> datetime | None:
    return None if value is None else _read(value)


def _from(kind: TypeEngine[Any], dialect: Dialect) -> _Convert:
    if isinstance(kind, UtcTime) and dialect.name == "sqlite":
        return _moment
    if isinstance(kind, Float):
        # Drivers give floats as they are; the converter would ask the cursor, which is not here yet.
        return None
    return kind.dialect_impl(dialect).result_processor(dialect, None)
