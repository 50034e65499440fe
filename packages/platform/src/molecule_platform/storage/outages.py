"""Which errors of the drivers mean that the database does not answer."""

import sqlite3

from sqlalchemy import exc

from molecule_platform.ports.storage import StorageDown

# Connection exceptions, too few resources, and an operator who ends our session.
_OUTAGE_STATES = ("08", "53", "57")


def is_outage(problem: BaseException) -> bool:
    """Whether the database is away or cannot work, as opposed to a statement it refuses."""
    if isinstance(problem, sqlite3.OperationalError | exc.TimeoutError | OSError | TimeoutError):
        return True
    if isinstance(problem, exc.DBAPIError):
        return problem.connection_invalidated or is_outage(problem.orig or Exception())
    state = getattr(problem, "sqlstate", None)
    if isinstance(state, str):
        return state.startswith(_OUTAGE_STATES)
    return type(problem).__name__ == "InterfaceError"


def translated(problem: BaseException) -> BaseException:
    """The problem itself, or `StorageDown` when it is an outage."""
    if isinstance(problem, StorageDown) or not is_outage(problem):
        return problem
    return down(problem)


def down(problem: BaseException) -> StorageDown:
    """An outage, with its cause."""
    found = StorageDown("the database does not answer")
    found.__cause__ = problem
    return found
