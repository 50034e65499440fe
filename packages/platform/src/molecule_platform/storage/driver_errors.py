"""Classify errors of the drivers: outages, and connections that must not be used again."""

import sqlite3

from sqlalchemy import exc

from molecule_platform.ports.storage import StorageDown

# Connection exceptions, too few resources, a session ended by an operator, errors of the server's own system.
_OUTAGE_CLASSES = ("08", "53", "57", "58")
# The server ended the session because the client was silent inside a transaction.
_IDLE_IN_TRANSACTION = "25P03"
# The server answered and refused only this session or this statement; its other connections work.
_TOO_FEW_RESOURCES = "53"
TOO_MANY_CLIENTS = "53300"
# Errors of asyncpg itself: the connection is closed, or the server's last bytes made no sense to it.
_DRIVER_ERRORS = frozenset({"InterfaceError", "InternalClientError"})
_OUTAGES = (StorageDown, OSError, TimeoutError, exc.TimeoutError, sqlite3.OperationalError)


def is_outage(problem: BaseException) -> bool:
    """Return True if the database is away or cannot work, False if it rejects a statement."""
    if isinstance(problem, _OUTAGES):
        return True
    if isinstance(problem, exc.DBAPIError):
        return problem.connection_invalidated or is_outage(problem.orig or Exception())
    state = sqlstate(problem)
    if state is not None:
        return state.startswith(_OUTAGE_CLASSES) or state == _IDLE_IN_TRANSACTION
    return type(problem).__name__ in _DRIVER_ERRORS


def breaks_connection(problem: BaseException) -> bool:
    """Return True if the connection that raised the problem must not be used again."""
    if isinstance(problem, StorageDown) and problem.__cause__ is not None:
        return breaks_connection(problem.__cause__)
    if not isinstance(problem, Exception):
        # A driver interrupted while it sends BEGIN does not know of the transaction that the server began:
        # back in the pool, the connection would show its snapshot to every later reader.
        return True
    return is_outage(problem) and not (sqlstate(problem) or "").startswith(_TOO_FEW_RESOURCES)


def sqlstate(problem: BaseException) -> str | None:
    """Return the SQLSTATE that the server sent, None where it sent none."""
    if isinstance(problem, exc.DBAPIError):
        return None if problem.orig is None else sqlstate(problem.orig)
    state = getattr(problem, "sqlstate", None)
    return state if isinstance(state, str) else None


def translated(problem: BaseException) -> BaseException:
    """Return the problem itself, or `StorageDown` if it is an outage."""
    if isinstance(problem, StorageDown) or not is_outage(problem):
        return problem
    return down(problem)


def down(problem: BaseException) -> StorageDown:
    """Return an outage with its cause, of which the text names the kind alone."""
    origin = getattr(problem, "orig", None) or problem
    outage = StorageDown(f"the database does not answer ({sqlstate(problem) or type(origin).__name__})")
    outage.__cause__ = problem
    return outage
