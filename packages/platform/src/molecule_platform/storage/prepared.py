"""Statements that are compiled once and then run as plain SQL text.

Building and compiling a statement costs ten times what SQLite needs to run it. What runs for every message is
therefore written once, with named parameters, compiled at its first use on a dialect, and handed to the
driver's own cursor.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Dialect
from sqlalchemy.sql.expression import Executable
from sqlalchemy.sql.selectable import TypedReturnsRows
from sqlalchemy.types import TypeEngine

_Convert = Callable[[Any], Any] | None


class _Compiled:
    """One statement on one dialect: its text, its parameters in order, and how values are converted."""

    def __init__(
        self, statement: Any, dialect: Dialect, names: Sequence[str] | None, columns: Sequence[Column[Any]]
    ) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=names)
        self.text = str(compiled)
        order: list[str] = compiled.positiontup
        self._inputs = [
            (name, compiled.params[name], _to(compiled.binds[name].type, dialect)) for name in order
        ]
        self._outputs = [(column.name, _from(column.type, dialect)) for column in columns]

    def values(self, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
        """The parameters in the order of the text; what is not given is a constant of the statement."""
        given = parameters.get
        return tuple(
            [
                value if (value := given(name, constant)) is None or convert is None else convert(value)
                for name, constant, convert in self._inputs
            ]
        )

    def row(self, row: Sequence[Any]) -> dict[str, Any]:
        """A row by the names of its columns."""
        return {
            name: value if convert is None else convert(value)
            for (name, convert), value in zip(self._outputs, row, strict=True)
        }


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
    return kind.dialect_impl(dialect).bind_processor(dialect)


def _from(kind: TypeEngine[Any], dialect: Dialect) -> _Convert:
    return kind.dialect_impl(dialect).result_processor(dialect, None)
