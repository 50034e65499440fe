"""The worker file: under which name the processes of an agent lease messages, one after the other.

A process holds a lock on the file for as long as it lives. So the next one knows whether the name in it is
that of a dead process, whose leases the platform may end, or of one that works beside it.
"""

import logging
import os
import re
import threading

from molecule_agent import token_store
from molecule_wire import file_locks

_NAME = re.compile(r"[0-9a-f]{16}")
_LENGTH = 16

log = logging.getLogger(__name__)


class WorkerIdFile:
    """`.worker` in the token directory. Where it cannot be locked or written there is only no predecessor."""

    def __init__(self, store: token_store.TokenStore) -> None:
        self._store = store
        self._path = store.directory / ".worker"
        self._lock = threading.Lock()
        self._handle: int | None = None
        self._name = ""

    def predecessor(self) -> str:
        """The name of the worker before this process, if it is dead."""
        with self._lock:
            if self._name or not (self._path.exists() and self._hold()):
                return ""
            assert self._handle is not None
            try:
                os.lseek(self._handle, 0, os.SEEK_SET)
                found = os.read(self._handle, _LENGTH).decode("ascii", "replace")
            except OSError as problem:
                log.info("%s cannot be read: %s", self._path, problem)
                return ""
            return found if _NAME.fullmatch(found) else ""

    def take_name(self) -> str:
        """A name to lease under: the first one is written down for whoever comes after this process."""
        name = os.urandom(_LENGTH // 2).hex()
        with self._lock:
            if not self._name and self._hold():
                assert self._handle is not None
                try:
                    # In place and always as long as before: a crash leaves one name or the other.
                    os.lseek(self._handle, 0, os.SEEK_SET)
                    os.write(self._handle, name.encode())
                    os.fsync(self._handle)
                    self._name = name
                except OSError as problem:
                    log.info("%s cannot be written: %s", self._path, problem)
        return name

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._handle is not None:
                os.close(self._handle)
            self._handle, self._name = None, ""

    def _hold(self) -> bool:
        """Whether the file is this process's, now or already."""
        if self._handle is not None:
            return True
        try:
            self._store.make_directory()
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as problem:
            log.info("%s cannot be opened: %s", self._path, problem)
            return False
        if not file_locks.try_lock(handle):
            os.close(handle)
            return False
        self._handle = handle
        return True
