"""The files of one agent: its token and its recovery secret, written atomically and readable by it alone."""

import contextlib
import logging
import os
import stat
import time
from collections.abc import Generator
from pathlib import Path

from molecule_agent import errors
from molecule_wire import file_locks

LOCK_WAIT = 2.0
_RETRY_LOCK_EVERY = 0.02
_WIDER_THAN_OWNER = stat.S_IRWXG | stat.S_IRWXO

log = logging.getLogger(__name__)


class TokenStore:
    """Reads need no lock, because a write replaces the file in one step; writes exclude each other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.token_file = directory / ".auth_token"
        self.recovery_file = directory / ".recovery"
        self.lock_file = directory / ".store.lock"
        self._warned_about: set[Path] = set()

    def load_token(self) -> str | None:
        """The token on disk, or `None` when there is none that can be read."""
        return self._load(self.token_file)

    def load_recovery(self) -> str | None:
        """The recovery secret on disk, or `None`."""
        return self._load(self.recovery_file)

    def save_token(self, token: str) -> bool:
        """Write the token; false (and a WARNING) when it could not be written and stays in memory only."""
        return self._save(self.token_file, token)

    def save_recovery(self, secret: str) -> bool:
        """Write the recovery secret; false when it could not be written."""
        return self._save(self.recovery_file, secret)

    def discard_recovery(self, secret: str) -> None:
        """Forget a used recovery secret, unless another process has already stored its successor."""
        with contextlib.suppress(OSError), self.locked(LOCK_WAIT):
            if self._load(self.recovery_file) == secret:
                self.recovery_file.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self, wait: float) -> Generator[None]:
        """Hold the lock of the directory; `TokenStoreError` after `wait` seconds."""
        self.make_directory()
        handle = os.open(self.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _wait_for_lock(handle, self.lock_file, wait)
            yield
        finally:
            os.close(handle)

    def make_directory(self) -> None:
        """Make the directory, for this user alone, if it is missing."""
        if not self.directory.is_dir():
            self.directory.parent.mkdir(parents=True, exist_ok=True)
            self.directory.mkdir(mode=0o700, exist_ok=True)

    def _save(self, path: Path, text: str) -> bool:
        try:
            with self.locked(LOCK_WAIT):
                self._replace(path, text)
        except OSError as error:
            log.warning("%s could not be written (%s); it is kept in memory only", path, error)
            return False
        return True

    def _replace(self, path: Path, text: str) -> None:
        temporary = path.with_name(f"{path.name}.{os.urandom(8).hex()}.tmp")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

    def _load(self, path: Path) -> str | None:
        try:
            self._tighten(path)
            return path.read_text(encoding="utf-8").strip() or None
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            log.warning("%s cannot be read: %s", path, error)
            return None

    def _tighten(self, path: Path) -> None:
        found = path.stat()
        if os.name != "posix" or not found.st_mode & _WIDER_THAN_OWNER:
            return
        if path not in self._warned_about:
            self._warned_about.add(path)
            log.warning("%s is open to other users; it should have mode 0600", path)
        if found.st_uid == os.getuid():
            path.chmod(0o600)


def _wait_for_lock(handle: int, path: Path, wait: float) -> None:
    deadline = time.monotonic() + wait
    while not file_locks.try_lock(handle):
        if time.monotonic() >= deadline:
            raise errors.TokenStoreError(f"{path} is held by another process for more than {wait:g} s")
        time.sleep(_RETRY_LOCK_EVERY)
