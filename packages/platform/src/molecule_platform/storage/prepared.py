"""Statements that are compiled once and then run as plain SQL text.

Building and compiling a statement costs ten times what SQLite needs to run it. What runs for every message is
therefore written once, with named parameters, compiled at its first use on a dialect, and handed to the
driver's own cursor.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, Column, Connection, Dialect, Float
from sqlalchemy.sql.expression import Executable
from sqlalchemy.sql.selectable import TypedReturnsRows
from sqlalchemy.types import TypeEngine

from molecule_platform.storage import workspace_cache, write_counter
from molecule_platform.storage.columns import UtcTime
from molecule_wire import times

_Convert = Callable[[Any], Any] | None

# One moment stands in many rows, and in several columns of one.
_read = functools.lru_cache(maxsize=256)(times.parse_time)
_written = functools.lru_cache(maxsize=256)(times.format_time)


class _Compiled:
    """One statement on one dialect: its text, its parameters in order, and how values are converted."""

    def __init__(
        self, statement: Any, dialect: Dialect, names: Sequence[str] | None, columns: Sequence[Column[Any]]
    ) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=names)
        self.text = str(compiled)
        self.execute = self._directly if dialect.name == "sqlite" else self._by_cursor
        self._writes = not self.text.startswith("SELECT")
        self.changes_standings = workspace_cache.changes_standings(self.text)
        order: list[str] = compiled.positiontup
        constants = {name: compiled.params[name] for name in order if not compiled.binds[name].required}
        converts = {name: _to(compiled.binds[name].type, dialect) for name in order}
        self.values = _binder(order, constants, converts)
        self._names = [column.name for column in columns]
        self._outputs = [
            (column.name, convert)
            for column in columns
            if (convert := _from(column.type, dialect)) is not None
        ]

    def _directly(self, connection: Connection, parameters: Mapping[str, Any]) -> Any:
        if self.changes_standings:
            workspace_cache.note(connection)
        driver: Any = connection.connection.dbapi_connection
        return driver.execute(self.text, self.values(parameters))

    def _by_cursor(self, connection: Connection, parameters: Mapping[str, Any]) -> Any:
        if self._writes:
            write_counter.note(connection)
        cursor = connection.connection.cursor()
        cursor.execute(self.text, self.values(parameters))
        return cursor

    def row(self, row: Sequence[Any]) -> dict[str, Any]:
        """A row by the names of its columns."""
        named = dict(zip(self._names, row, strict=True))
        for name, convert in self._outputs:
            named[name] = convert(named[name])
        return named


def _binder(
    order: Sequence[str], constants: Mapping[str, Any], converts: Mapping[str, _Convert]
) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    """A function that puts parameters in the order of a statement's text, converted, among its constants.

    It is written as one expression of Python, because it runs more often than anything else here.
    """
    known: dict[str, Any] = {}
    values: list[str] = []
    for place, name in enumerate(order):
        convert, given = converts[name], f"given[{name!r}]"
        if name in constants:
            value = constants[name]
            known[f"constant_{place}"] = value if convert is None or value is None else convert(value)
            values.append(f"constant_{place}")
        elif convert is None:
            values.append(given)
        else:
            known[f"convert_{place}"] = convert
            values.append(f"(None if {given} is None else convert_{place}({given}))")
    return eval(f"lambda given: [{', '.join(values)}]", known)  # noqa: S307 - of our own columns' names


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
        self._compiled(connection).execute(connection, parameters)

    def run_all(self, connection: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
        """Execute for each of several sets of parameters."""
        compiled = self._compiled(connection)
        write_counter.note(connection)
        if compiled.changes_standings:
            workspace_cache.note(connection)
        connection.connection.cursor().executemany(compiled.text, [compiled.values(row) for row in rows])

    def count(self, connection: Connection, parameters: Mapping[str, Any]) -> int:
        """Execute; how many rows it changed."""
        return self._compiled(connection).execute(connection, parameters).rowcount

    def scalar(self, connection: Connection, parameters: Mapping[str, Any]) -> Any:
        """Execute; the one value of the one row, as the driver gives it."""
        return self._compiled(connection).execute(connection, parameters).fetchone()[0]

    def rows(self, connection: Connection, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Execute; the rows by the names of their columns."""
        compiled = self._compiled(connection)
        return [compiled.row(row) for row in compiled.execute(connection, parameters).fetchall()]

    def first(self, connection: Connection, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
        """Execute; the first row by the names of its columns."""
        compiled = self._compiled(connection)
        row = compiled.execute(connection, parameters).fetchone()
        return None if row is None else compiled.row(row)

    def _compiled(self, connection: Connection) -> _Compiled:
        found = self._by_dialect.get(connection.dialect.name)
        return self._compile(connection.dialect) if found is None else found

    def _compile(self, dialect: Dialect) -> _Compiled:
        compiled = _Compiled(self._statement, dialect, self._names, self._columns)
        self._by_dialect[dialect.name] = compiled
        return compiled


def _to(kind: TypeEngine[Any], dialect: Dialect) -> _Convert:
    if isinstance(kind, UtcTime) and dialect.name == "sqlite":
        return _written
    if isinstance(kind, Boolean):
        return None
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
