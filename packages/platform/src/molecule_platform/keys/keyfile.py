"""The file of keys: one on each line, the one that seals first. It is only ever replaced as a whole."""

import base64
import contextlib
import fcntl
import os
import secrets
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from molecule_platform.keys.sealing import (
    KEY_BYTES,
    KEY_FILE,
    SETTING,
    KeyProblem,
    Keyring,
    key_id_of,
    read_key,
)


class KeyFile:
    """Keys on disk, readable by their owner alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: object = None

    def read(self) -> list[bytes]:
        """The keys; raises `KeyProblem` when the file is not whole."""
        try:
            self._seen = self._mark()
            text = self.path.read_text("ascii")
        except OSError as problem:
            raise KeyProblem(
                f"{self.path} cannot be read ({problem.strerror}): make it readable."
            ) from problem
        except UnicodeDecodeError:
            text = ""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return [read_key(line, str(self.path)) for line in lines or [""]]

    def changed(self) -> list[bytes] | None:
        """The keys, if somebody replaced the file since it was read last."""
        try:
            if self._mark() == self._seen:
                return None
        except OSError as problem:
            raise KeyProblem(f"{self.path} cannot be read ({problem.strerror}): put it back.") from problem
        return self.read()

    def _mark(self) -> tuple[int, int, int]:
        found = self.path.stat()
        return found.st_ino, found.st_mtime_ns, found.st_size

    def create_if_missing(self) -> None:
        """The first of several starters wins: all of them then read one key."""
        if self.path.exists():
            return
        advice = f"make the data directory writable or set {SETTING}"
        with self._draft([_new_key()], advice) as draft, contextlib.suppress(FileExistsError):
            os.link(draft, self.path)

    def put_first(self, key: bytes) -> None:
        """A new key before all others, which stay."""
        with self._alone():
            self._replace([key, *self.read()])

    def drop(self, key_ids: Collection[str]) -> None:
        """Throw keys away, but never the first."""
        with self._alone():
            first, *others = self.read()
            kept = [first, *(key for key in others if key_id_of(key) not in key_ids)]
            if len(kept) <= len(others):
                self._replace(kept)

    def _replace(self, keys: Sequence[bytes]) -> None:
        with self._draft(keys, "make the data directory writable") as draft:
            draft.rename(self.path)

    @contextmanager
    def _draft(self, keys: Sequence[bytes], advice: str) -> Generator[Path]:
        """A file beside ours that is on disk whole; what is done with it inside is then on disk too."""
        draft = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}")
        try:
            _write_durably(draft, b"".join(base64.b64encode(key) + b"\n" for key in keys))
            yield draft
            _sync_folder(self.path.parent)
        except OSError as problem:
            raise KeyProblem(f"{self.path} cannot be created ({problem.strerror}): {advice}.") from problem
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Keep out other processes that change the keys: none may be lost between reading and replacing."""
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


class Keychain:
    """The keys of a platform: the ring that seals and opens, and the file behind it."""

    def __init__(self, file: KeyFile, given: bytes | None) -> None:
        self._file = file
        self._given = given
        first, *others = self._all(self._read())
        self.ring = Keyring(first, others, self._changed)

    def _read(self) -> list[bytes]:
        if self._given is None:
            self._file.create_if_missing()
            return self._file.read()
        return self._file.read() if self._file.path.exists() else []

    def _all(self, in_file: list[bytes]) -> list[bytes]:
        return in_file if self._given is None else [self._given, *in_file]

    def _changed(self) -> list[bytes] | None:
        if self._given is not None and not self._file.path.exists():
            return None
        keys = self._file.changed()
        return None if keys is None else self._all(keys)

    @property
    def current_id(self) -> str:
        """The key that seals."""
        self.ring.refresh()
        return self.ring.current_id

    @property
    def key_ids(self) -> frozenset[str]:
        """All keys that can open something; none once the file of the keys is gone."""
        try:
            self.ring.refresh()
        except KeyProblem:
            return frozenset()
        return self.ring.key_ids

    def renew(self) -> bool:
        """A new key in the file, which seals from now on; a key that was given cannot be replaced here."""
        if self._given is not None:
            return False
        self._file.put_first(_new_key())
        self.ring.refresh()
        return True

    def forget(self, key_ids: Collection[str]) -> None:
        """Throw keys of the file away."""
        if key_ids and self._file.path.exists():
            self._file.drop(key_ids)
            self.ring.refresh()


def load_keychain(data_dir: Path, configured: str | None) -> Keychain:
    """The configured key, with those of the key file as older ones; else the key file's, made at first."""
    given = read_key(configured, SETTING) if configured else None
    return Keychain(KeyFile(data_dir / KEY_FILE), given)


def _new_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def _write_durably(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
