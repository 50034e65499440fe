"""Delegation results that came while the agent was idle: the heartbeat fills a file, a turn empties it."""

import logging
import os
import time
from pathlib import Path

from molecule_runtime.domain.prompt_quoting import NOT_INSTRUCTIONS, fence
from molecule_wire import JSON, JSONObject, jsontext

RESULTS_FILE = ".delegation_results.jsonl"
POLL_SECONDS = 0.05

log = logging.getLogger(__name__)


def results_path() -> Path:
    """Where the results are kept: `DELEGATION_RESULTS_FILE`, else in the config directory."""
    configs = os.environ.get("WORKSPACE_CONFIG_PATH") or "/configs"
    return Path(os.environ.get("DELEGATION_RESULTS_FILE") or Path(configs) / RESULTS_FILE)


def read_delegation_results(path: Path | None = None) -> str:
    """The results that nobody read yet, as text for the model, and no more of them next time.

    The file is moved away in one step before it is read, so a result written meanwhile is not lost.
    """
    source = path or results_path()
    if not os.access(source, os.F_OK):  # as before nearly every turn; `exists` takes three times as long
        return ""
    taken = source.with_name(f"{source.name}.{os.urandom(4).hex()}")
    try:
        source.rename(taken)
    except FileNotFoundError:
        return ""
    except OSError as problem:
        log.warning("delegation results in %s cannot be read: %s", source, problem.strerror)
        return ""
    try:
        lines = taken.read_bytes().splitlines()
    finally:
        taken.unlink(missing_ok=True)
    described = [_described(row) for line in lines if (row := _row(line))]
    return "\n".join([NOT_INSTRUCTIONS, fence("\n".join(described))]) if described else ""


class UnreadResults:
    """The results for the next turn. A turn that fails gives them back, so that they are not lost with it."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._returned: list[str] = []
        self._look_at = 0.0

    def take(self) -> str:
        """All results that no turn has answered with yet; empty when there are none.

        A busy workspace looks at the file twenty times a second: a look takes as long as to parse a request.
        """
        now = time.monotonic()
        if now < self._look_at and not self._returned:
            return ""
        self._look_at = now + POLL_SECONDS
        texts = [*self._returned, read_delegation_results(self._path)]
        self._returned.clear()
        return "\n".join(text for text in texts if text)

    def look(self) -> None:
        """There is something new: the next turn looks, however short ago the last one did.

        A peer may answer, and its result wake the agent up, in less time than lies between two looks.
        """
        self._look_at = 0.0

    def give_back(self, text: str) -> None:
        """The turn that took these did not end well."""
        if text:
            self._returned.append(text)


def _row(line: bytes) -> JSONObject:
    try:
        value = jsontext.decode(line)
    except jsontext.NotJSON:
        return {}
    return value if isinstance(value, dict) else {}


def _described(row: JSONObject) -> str:
    head = f"- [{_text(row.get('status')) or 'unknown'}] delegation {_text(row.get('delegation_id'))}"
    head += f" to {_text(row.get('target_id'))}"
    labelled = (("Task", "summary"), ("Response", "response_preview"), ("Error", "error"))
    lines = [f"  {label}: {text}" for label, member in labelled if (text := _text(row.get(member)))]
    return "\n".join([head, *lines])


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""
