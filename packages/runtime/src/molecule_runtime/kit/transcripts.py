"""Transcript log: one JSONL file per conversation, redacted before it is written, rotated at 10 MiB.

Every line has a number `n` that grows over all conversations. It is the cursor of readers, so what is read
keeps its place when a file is rotated.
"""

import hashlib
import heapq
import itertools
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

from molecule_runtime.domain.scrubbing import scrub_value
from molecule_runtime.kit.files import open_private, private_folder
from molecule_wire.times import format_time

MAX_LIMIT = 1000
ROTATION_BYTES = 10 * 1024 * 1024
MAX_LINE_BYTES = 1024 * 1024

_SAFE_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)
_SMALL = 4096  # below this a file is read from its beginning


class Transcripts:
    """The transcript of a workspace; any thread may append and read. One process writes."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        runtime: str,
        known_values: Callable[[], Iterable[str]] = tuple,
        rotation_bytes: int = ROTATION_BYTES,
    ) -> None:
        self._folder = Path(folder)
        self._runtime = runtime
        self._known_values = known_values
        self._rotation_bytes = rotation_bytes
        self._lock = threading.Lock()
        self._next: int | None = None
        self._whole = set[Path]()

    def append(self, context_id: str, line: Mapping[str, Any] | str) -> int:
        """Add a line to a conversation; its number. A line of more than 1 MiB leaves only a note."""
        said: Any = {"text": line} if isinstance(line, str) else dict(line)
        said = scrub_value(json.loads(json.dumps(said, default=str)), tuple(self._known_values()))
        with self._lock:
            private_folder(self._folder)
            number = self._last_number() + 1 if self._next is None else self._next
            head = {"n": number, "time": format_time(datetime.now(UTC)), "context_id": context_id}
            encoded = _encoded(said | head)
            if len(encoded) > MAX_LINE_BYTES:
                encoded = _encoded({"note": f"a line of {len(encoded)} bytes is not kept"} | head)
            self._write(self.path_of(context_id), encoded)
            self._next = number + 1
        return number

    def read(self, since: int = 0, limit: int = 100) -> dict[str, Any]:
        """A page of transcript lines: those from number `since` on, of all conversations in their order."""
        since, limit = max(since, 0), max(0, min(limit, MAX_LIMIT))
        with self._lock:  # no file is rotated meanwhile
            pages = (itertools.islice(_lines(path, since), limit + 1) for path in self._files())
            found = heapq.nsmallest(limit + 1, itertools.chain.from_iterable(pages), key=_number)
        lines = found[:limit]
        return {
            "runtime": self._runtime,
            "supported": True,
            "lines": lines,
            "cursor": lines[-1]["n"] + 1 if lines else since,
            "more": len(found) > limit,
            "source": str(self._folder),
        }

    def path_of(self, context_id: str) -> Path:
        """The file of a conversation: its id, or the digest of an id that is no safe file name."""
        if _SAFE_NAME.fullmatch(context_id):
            return self._folder / f"{context_id}.jsonl"
        digest = hashlib.sha256(context_id.encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"~{digest[:32]}.jsonl"

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*.jsonl"))

    def _write(self, path: Path, encoded: bytes) -> None:
        size = path.stat().st_size if path.exists() else 0
        if size and size + len(encoded) > self._rotation_bytes:
            os.replace(path, path.with_suffix(".1.jsonl"))
            size = 0
        with open_private(path, append=True) as file:
            # A process that was killed may have left half a line.
            if size and path not in self._whole and not _ends_line(path):
                file.write(b"\n")
            file.write(encoded)
        self._whole.add(path)

    def _last_number(self) -> int:
        """The highest number in the files; -1 if there is none."""
        return max((_last_of(path) for path in self._files()), default=-1)


def _encoded(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _number(line: dict[str, Any]) -> int:
    return line["n"]


def _parsed(encoded: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(encoded)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict):
        return None
    members = cast("dict[str, Any]", line)
    return members if type(members.get("n")) is int else None


def _lines(path: Path, since: int) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        file.seek(_offset(file, since))
        for encoded in file:
            line = _parsed(encoded)
            if line is not None and line["n"] >= since:
                yield line


def _offset(file: BinaryIO, since: int) -> int:
    """Binary search for a place before which every line has a smaller number."""
    low, high = 0, file.seek(0, os.SEEK_END)
    while high - low > _SMALL:
        middle = (low + high) // 2
        file.seek(middle)
        file.readline()  # the rest of a line that began before
        line = _parsed(file.readline())
        if line is not None and line["n"] < since:
            low = middle
        else:
            high = middle
    if low:
        file.seek(low)
        file.readline()
        low = file.tell()
    return low


def _ends_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _last_of(path: Path) -> int:
    """The number of the last whole line; lines have at most 1 MiB."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 2 * MAX_LINE_BYTES))
        numbers = [line["n"] for line in map(_parsed, file) if line is not None]
    return max(numbers, default=-1)
