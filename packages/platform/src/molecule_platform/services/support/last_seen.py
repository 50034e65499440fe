"""When a workspace last got or sent something, written at most every few seconds.

Only sweeps for idle workspaces and people read it, in minutes; to write it for every message cost a third of
one.
"""

from datetime import datetime, timedelta

from molecule_platform.ports.storage import Transaction

MAX_KNOWN = 10_000


class LastSeenWriter:
    """What this process has written last to one column, of each workspace."""

    def __init__(self, column: str, written_every: timedelta) -> None:
        self._column = column
        self._every = written_every
        self._written: dict[str, datetime] = {}

    def note(self, tx: Transaction, workspace_id: str, now: datetime) -> None:
        """It happens now."""
        written = self._written.get(workspace_id)
        if written is not None and timedelta(0) <= now - written < self._every:
            return
        if len(self._written) >= MAX_KNOWN:
            self._written.clear()
        self._written[workspace_id] = now
        tx.workspaces.touch(workspace_id, **{self._column: now})


def received() -> LastSeenWriter:
    """When somebody last wrote to a workspace."""
    return LastSeenWriter("last_activity_at", timedelta(seconds=1))


def sent() -> LastSeenWriter:
    """When a workspace last wrote to somebody."""
    return LastSeenWriter("last_outbound_at", timedelta(seconds=5))
