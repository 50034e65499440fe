"""How often a connection wrote: a batch must know whether a job that failed has left anything behind."""

from sqlalchemy import Connection

_KEY = "writes"


def note(connection: Connection) -> None:
    """A statement that may write is about to run."""
    info = connection.info
    info[_KEY] = info.get(_KEY, 0) + 1


def count(connection: Connection) -> int:
    """How many such statements there were."""
    return connection.info.get(_KEY, 0)
