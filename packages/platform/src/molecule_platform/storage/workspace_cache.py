"""A cache of workspaces and members of the tree. Only a process that alone writes everything can trust it.

Every message asks three times for its target and once for its sender, and changes neither; without this, one
of 300 senders to 32 agents costs a seventh more. What is remembered is forgotten as a whole as soon as any
workspace is written, and nothing is remembered before that is committed. Heartbeats and messages write
columns that nobody is told from here: those forget nothing.
"""

import re
from typing import Generic, TypeVar

from sqlalchemy import Connection

from molecule_platform.domain.access import TreeMember
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.workspaces import LAST_TIMES, PRESENCE

MAX_KNOWN = 4096
_KEY = "standings"
_WRITES = ("INSERT INTO workspaces ", "UPDATE workspaces ", "DELETE FROM workspaces ")
_SET = re.compile(r"UPDATE workspaces SET (.+?) WHERE ", re.DOTALL)
_UNTOLD = frozenset((*PRESENCE, *LAST_TIMES))

Known = TypeVar("Known")


class CachedWorkspace(Generic[Known]):
    """Values by id, unless they are being changed."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._is_changing = False

    def get(self, known_id: str) -> Known | None:
        """The value as it is, if that is known."""
        return None if self._is_changing else self._known.get(known_id)

    def keep(self, known_id: str, known: Known) -> None:
        """Remember what was just read."""
        if not self._is_changing:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[known_id] = known

    def change(self) -> None:
        """Something is being written."""
        self._is_changing = True

    def settle(self) -> None:
        """What was being written is now committed, or undone."""
        if self._is_changing:
            self._known.clear()
            self._is_changing = False


class WorkspaceCache:
    """One per file. Its connections, the writer's and one reader's, belong to one thread."""

    def __init__(self) -> None:
        self.workspaces: CachedWorkspace[Workspace] = CachedWorkspace()
        self.members: CachedWorkspace[TreeMember] = CachedWorkspace()
        self.ancestors: CachedWorkspace[tuple[str, ...]] = CachedWorkspace()
        self._all = (self.workspaces, self.members, self.ancestors)

    def change(self) -> None:
        """A workspace is being written; nobody moves in the tree without that."""
        for remembered in self._all:
            remembered.change()

    def settle(self) -> None:
        """What was being written is now committed, or undone."""
        for remembered in self._all:
            remembered.settle()


def attach(connection: Connection, standings: WorkspaceCache) -> None:
    """Let a connection know what is remembered."""
    connection.info[_KEY] = standings


def of(connection: Connection) -> WorkspaceCache | None:
    """What is remembered here, if anything is."""
    return connection.info.get(_KEY)


def changes_standings(text: str) -> bool:
    """Whether a statement changes something of workspaces that may be remembered."""
    if not text.startswith(_WRITES):
        return False
    clause = _SET.match(text)
    names = {one.partition("=")[0].strip() for one in clause[1].split(",")} if clause else {""}
    return not names <= _UNTOLD


def note(connection: Connection) -> None:
    """A statement that changes workspaces is about to run."""
    if (standings := of(connection)) is not None:
        standings.change()
