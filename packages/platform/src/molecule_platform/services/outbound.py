"""When a workspace last sent something, written at most every few seconds.

Only the sweep for idle workspaces reads it, in minutes; to write it for every message cost a third of one.
"""

from datetime import datetime, timedelta

from molecule_platform.ports.storage import Transaction

WRITTEN_EVERY = timedelta(seconds=5)
MAX_KNOWN = 10_000


class OutboundTimes:
    """What this process has written last, of each workspace."""

    def __init__(self) -> None:
        self._written: dict[str, datetime] = {}

    def note(self, tx: Transaction, workspace_id: str, now: datetime) -> None:
        """The workspace sends something now."""
        written = self._written.get(workspace_id)
        if written is not None and timedelta(0) <= now - written < WRITTEN_EVERY:
            return
        if len(self._written) >= MAX_KNOWN:
            self._written.clear()
        self._written[workspace_id] = now
        tx.workspaces.touch(workspace_id, last_outbound_at=now)
