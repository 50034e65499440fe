"""Content-addressed files: artifacts on disk by their SHA-256, each written once."""

import hashlib
import os
import tempfile
from pathlib import Path


class ArtifactFiles:
    """A directory of files that are named by their digest."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, data: bytes) -> str:
        """Keep bytes and return their digest; they are complete on disk when this returns."""
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        if path.exists():
            return digest
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return digest

    def read(self, digest: str, start: int, length: int | None) -> bytes:
        """A range of a file. Raises FileNotFoundError for an unknown digest."""
        with self._path(digest).open("rb") as file:
            file.seek(start)
            return file.read(-1 if length is None else length)

    def remove(self, digest: str) -> None:
        """Delete a file; one that is gone already is fine."""
        self._path(digest).unlink(missing_ok=True)

    def _path(self, digest: str) -> Path:
        return self._root / digest[:2] / digest
