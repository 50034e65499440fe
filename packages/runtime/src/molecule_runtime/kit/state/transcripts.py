"""Transcript log: one JSONL file per conversation, redacted before it is written, rotated at 10 MiB.

Every line has a number `n` that grows over all conversations. It is the cursor of readers, so what is read
keeps its place when a file is rotated.
"""

import hashlib
import heapq
import itertools
import json
import logging
import os
import re
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

from molecule_runtime.domain.snapshot_redaction import scrub_content, scrub_value
from molecule_runtime.kit.files.atomic_files import append_private, private_folder
from molecule_runtime.kit.turns.messages import LINE_CHARACTERS
from molecule_wire import JSONObject, jsontext, redaction
from molecule_wire.times import format_time

MAX_LIMIT = 1000
ROTATION_BYTES = 10 * 1024 * 1024
MAX_LINE_BYTES = 1024 * 1024
MAX_PAGE_CHARACTERS = 4 * 1024 * 1024
MAX_FILES, MAX_BYTES = 1000, 512 * 1024 * 1024
BATCH_SECONDS = 0.2

log = logging.getLogger("molecule_runtime")

_SAFE_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)
_SMALL = 4096  # below this a file is read from its beginning


class TranscriptLog:
    """The transcript of a workspace; any thread may append and read. One process writes."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        runtime: str,
        known_values: Callable[[], Iterable[str]] = tuple,
        rotation_bytes: int = ROTATION_BYTES,
        defer: Callable[[float, Callable[[], object]], object] | None = None,
    ) -> None:
        """`defer` calls a function after some seconds; then turns that come quickly are written together."""
        self._folder = Path(folder)
        self._prefix = f"{self._folder}{os.sep}"
        self._runtime = runtime
        self._known_values = known_values
        self._rotation_bytes = rotation_bytes
        self._lock = threading.Lock()
        self._defer = defer
        self._pending: deque[tuple[str, float, JSONObject, JSONObject]] = deque()
        self._written_at = 0.0
        self._next = -1  # nothing is known of the folder yet
        # The sizes of the files, the one that was quiet longest first: a folder of a thousand files takes
        # milliseconds to list, and nearly every message that begins a conversation needs a new one.
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._bytes = 0
        self._whole = set[str]()

    def append(self, context_id: str, line: Mapping[str, Any] | str) -> int:
        """Add a line to a conversation; its number. A line of more than 1 MiB leaves only a note."""
        entry: Any = {"text": line} if isinstance(line, str) else dict(line)
        plain = json.loads(_LENIENT_ENCODER.encode(entry), parse_constant=str)  # NaN is no JSON
        entry = scrub_value(plain, tuple(self._known_values()))
        with self._lock:
            self._write_pending()
            first, encoded = self._encoded(context_id, time.time(), [entry])
            self._write(context_id, encoded)
        return first

    def append_turn(self, context_id: str, question: JSONObject, answer: JSONObject) -> None:
        """Add both lines of a turn; of what the kit says in them only the `text` is somebody's words.

        A short turn that comes soon after another waits with those that follow it: written one by one they
        took a twelfth of a busy workspace's time. A long one is written at once, on the thread it comes on.
        """
        if len(str(question["text"])) + len(str(answer["text"])) > LINE_CHARACTERS:
            lines = self._scrubbed(question, answer)
            with self._lock:
                self._write_pending()
                self._write_or_warn(context_id, self._encoded(context_id, time.time(), lines)[1])
            return
        self._pending.append((context_id, time.time(), question, answer))
        if self._defer is None or time.monotonic() - self._written_at >= BATCH_SECONDS:
            self.flush()
        elif len(self._pending) == 1:
            self._defer(BATCH_SECONDS, self.flush)

    def _scrubbed(self, *lines: JSONObject) -> list[JSONObject]:
        known = tuple(self._known_values())
        if _are_clean([str(line["text"]) for line in lines], known):
            return list(lines)
        return [{**line, "text": scrub_content(str(line["text"]), known)} for line in lines]

    def flush(self) -> None:
        """Write what waits."""
        with self._lock:
            self._write_pending()

    def _write_pending(self) -> None:
        pending = [self._pending.popleft() for _ in range(len(self._pending))]
        self._written_at = time.monotonic()
        texts = [str(line["text"]) for *_, question, answer in pending for line in (question, answer)]
        # Nearly always all of them are: one look at many costs a fifth of many looks.
        are_clean = _are_clean(texts, self._known_values())
        by_context: dict[str, list[bytes]] = {}
        for context_id, at, question, answer in pending:
            lines = [question, answer] if are_clean else self._scrubbed(question, answer)
            by_context.setdefault(context_id, []).append(self._encoded(context_id, at, lines)[1])
        for context_id, encoded in by_context.items():
            self._write_or_warn(context_id, b"".join(encoded))

    def _encoded(self, context_id: str, at: float, lines: list[Any]) -> tuple[int, bytes]:
        """The number of the first line, and all of them."""
        if self._next < 0:
            self._read_folder()
        first, self._next = self._next, self._next + len(lines)
        beside = {"time": format_time(datetime.fromtimestamp(at, UTC)), "context_id": context_id}
        places = enumerate(lines, start=first)
        return first, b"".join([_bounded({**entry, "n": number, **beside}) for number, entry in places])

    def read(self, since: int = 0, limit: int = 100) -> dict[str, Any]:
        """A page of transcript lines: those from number `since` on, of all conversations in their order."""
        since, limit = max(since, 0), max(0, min(limit, MAX_LIMIT))
        with self._lock:  # no file is rotated meanwhile
            self._write_pending()
            pages = (itertools.islice(_lines(path, since), limit + 1) for path in self._files())
            found = heapq.nsmallest(
                limit + 1, itertools.chain.from_iterable(pages), key=lambda line: line["n"]
            )
        lines, size = list[dict[str, Any]](), 0
        for line in found[:limit]:
            size += len(str(line.get("text", "")))
            if lines and size > MAX_PAGE_CHARACTERS:
                break
            lines.append(line)
        return {
            "runtime": self._runtime,
            "supported": True,
            "lines": lines,
            "cursor": lines[-1]["n"] + 1 if lines else since,
            "more": len(found) > len(lines),
            "source": str(self._folder),
        }

    def path_of(self, context_id: str) -> Path:
        """The file of a conversation."""
        return self._folder / _file_name(context_id)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*.jsonl"))

    def _read_folder(self) -> None:
        """Learn what is there; from then on this process is the only one that changes it."""
        private_folder(self._folder)
        found = sorted((path.stat().st_mtime, path) for path in self._files())
        self._sizes = OrderedDict((str(path), path.stat().st_size) for _, path in found)
        self._bytes = sum(self._sizes.values())
        self._whole.clear()
        self._next = max(self._next, *(_last_of(path) + 1 for _, path in found), 0)

    def _write_or_warn(self, context_id: str, encoded: bytes) -> None:
        """Write lines of turns, which a full disk must not fail."""
        try:
            self._write(context_id, encoded)
        except OSError as problem:
            log.warning("the transcript of %s cannot be written: %s", context_id, problem.strerror)

    def _write(self, context_id: str, encoded: bytes) -> None:
        path = self._prefix + _file_name(context_id)
        try:
            self._add(path, encoded)
        except FileNotFoundError:  # somebody has removed the folder
            self._read_folder()
            self._add(path, encoded)

    def _add(self, path: str, encoded: bytes) -> None:
        size = self._sizes.pop(path, 0)
        self._make_room(len(encoded), is_new=not size)
        if size and size + len(encoded) > self._rotation_bytes:
            older = path.removesuffix(".jsonl") + ".1.jsonl"
            os.replace(path, older)
            self._bytes -= self._sizes.pop(older, 0)
            self._sizes[older], size = size, 0
        # A process that was killed may have left half a line.
        if size and path not in self._whole and not _ends_line(path):
            encoded = b"\n" + encoded
        append_private(path, encoded)
        self._whole.add(path)
        self._sizes[path] = size + len(encoded)
        self._bytes += len(encoded)

    def _make_room(self, size: int, *, is_new: bool) -> None:
        """Forget the conversations that were quiet longest; each has files, and a caller names them."""
        while self._sizes and ((is_new and len(self._sizes) >= MAX_FILES) or self._bytes + size > MAX_BYTES):
            path, held = self._sizes.popitem(last=False)
            self._bytes -= held
            Path(path).unlink(missing_ok=True)
            self._whole.discard(path)


def _are_clean(texts: list[str], known_values: Iterable[str]) -> bool:
    return redaction.is_clean("\n".join(texts), redaction.SNAPSHOT, known_values)


def _file_name(context_id: str) -> str:
    """The id of a conversation, or the digest of an id that is no safe file name."""
    if _SAFE_NAME.fullmatch(context_id):
        return f"{context_id}.jsonl"
    digest = hashlib.sha256(context_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"~{digest[:32]}.jsonl"


_LENIENT_ENCODER = json.JSONEncoder(default=str)


def _bounded(line: JSONObject) -> bytes:
    encoded = jsontext.encode_ascii(line) + b"\n"
    if len(encoded) > MAX_LINE_BYTES:
        head = {name: line[name] for name in ("n", "time", "context_id")}
        note = f"a line of {len(encoded)} bytes is not kept"
        return jsontext.encode_ascii({"note": note, **head}) + b"\n"
    return encoded


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


def _ends_line(path: str) -> bool:
    with Path(path).open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _last_of(path: Path) -> int:
    """The number of the last whole line; lines have at most 1 MiB."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 2 * MAX_LINE_BYTES))
        numbers = [line["n"] for line in map(_parsed, file) if line is not None]
    return max(numbers, default=-1)
