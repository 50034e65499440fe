"""Workspaces as they were last read. Only a process that alone writes everything knows that they still are.

Every message looks at its target twice and changes it seldom. What is remembered is forgotten as a whole as
soon as any workspace is written, and nothing is remembered before that is committed.
"""

from sqlalchemy import Connection

from molecule_platform.domain.workspaces import Workspace

MOST_KNOWN = 4096
_KEY = "standings"
_WRITES = ("INSERT INTO workspaces ", "UPDATE workspaces ", "DELETE FROM workspaces ")


class Standings:
    """One per file. Its connections, the writer's and one reader's, belong to one thread."""

    def __init__(self) -> None:
        self._known: dict[str, Workspace] = {}
        self._is_changing = False

    def get(self, workspace_id: str) -> Workspace | None:
        """The workspace as it is, if that is known."""
        return None if self._is_changing else self._known.get(workspace_id)

    def keep(self, workspace: Workspace) -> None:
        """Remember what was just read."""
        if not self._is_changing:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[workspace.id] = workspace

    def change(self) -> None:
        """A workspace is being written."""
        self._is_changing = True

    def settle(self) -> None:
        """What was being written is now committed, or undone."""
        if self._is_changing:
            self._known.clear()
            self._is_changing = False


def attach(connection: Connection, standings: Standings) -> None:
    """Let a connection know what is remembered."""
    connection.info[_KEY] = standings


def of(connection: Connection) -> Standings | None:
    """What is remembered here, if anything is."""
    return connection.info.get(_KEY)


def writes_workspaces(text: str) -> bool:
    """Whether a statement changes workspaces."""
    return text.startswith(_WRITES)


def note(connection: Connection) -> None:
    """A statement that changes workspaces is about to run."""
    if (standings := of(connection)) is not None:
        standings.change()
