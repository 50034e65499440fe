"""Which results of delegations a workspace was not told of yet, and how it is told."""

import hashlib
import uuid
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from molecule_wire import JSON, JSONObject, jsontext

MAX_SEEN_DELEGATION_IDS = 200
SELF_MESSAGE_COOLDOWN = 60

FINISHED = frozenset({"completed", "failed"})
_MAX_SUMMARY = 200
_NAMESPACE = uuid.UUID("6f2f3a1e-6f0f-4d7c-9a43-0c5a8e5b7d11")
_FIELDS = ("delegation_id", "target_id", "source_id", "status", "summary", "response_preview", "error")


class SortedResults(NamedTuple):
    """The finished rows of a list: those of this workspace that are new, and ids of foreign ones."""

    new: list[JSONObject]
    foreign: list[str]


class ResultLog:
    """Results by their ids: `pending` ones until a wake-up was accepted, then `seen`, the newest 200."""

    def __init__(self, seen: Iterable[str] = (), pending: Iterable[JSONObject] = ()) -> None:
        self._seen: OrderedDict[str, None] = OrderedDict.fromkeys(seen)
        self.pending: dict[str, JSONObject] = {_text(row.get("delegation_id")): row for row in pending}
        self._forget_old()

    @classmethod
    def read(cls, text: str) -> "ResultLog":
        """Read what `text` wrote; anything else is an empty log."""
        try:
            state = jsontext.decode(text.encode())
        except jsontext.NotJSON:
            return cls()
        state = state if isinstance(state, dict) else {}
        seen, pending = state.get("seen"), state.get("pending")
        return cls(
            [one for one in seen if isinstance(one, str)] if isinstance(seen, list) else [],
            [one for one in pending if isinstance(one, dict)] if isinstance(pending, list) else [],
        )

    def text(self) -> str:
        """The log as it is kept in a file."""
        state: JSONObject = {"seen": list[JSON](self._seen), "pending": list[JSON](self.pending.values())}
        return jsontext.encode(state).decode()

    def sort(self, rows: list[JSONObject], workspace_id: str) -> SortedResults:
        """Find what is new in a list of delegations, oldest first."""
        new: dict[str, JSONObject] = {}
        foreign: list[str] = []
        for row in reversed(rows):
            delegation_id = _text(row.get("delegation_id"))
            if not delegation_id or _text(row.get("status")) not in FINISHED:
                continue
            if _text(row.get("source_id")).lower() != workspace_id.lower():
                foreign.append(delegation_id)
            elif delegation_id in self._seen:
                self._seen.move_to_end(delegation_id)
            elif delegation_id not in self.pending:
                new[delegation_id] = row
        return SortedResults(list(new.values()), foreign)

    def add(self, results: list[JSONObject]) -> None:
        """These results are known; a wake-up must name them."""
        self.pending |= {_text(result.get("delegation_id")): result for result in results}

    def settle(self, delegation_ids: Iterable[str]) -> None:
        """A wake-up that names them was accepted."""
        for delegation_id in delegation_ids:
            self.pending.pop(delegation_id, None)
            self._seen[delegation_id] = None
            self._seen.move_to_end(delegation_id)
        self._forget_old()

    def _forget_old(self) -> None:
        while len(self._seen) > MAX_SEEN_DELEGATION_IDS:
            self._seen.popitem(last=False)


def result_of(row: JSONObject, now: str) -> JSONObject:
    """A row of the platform as a line of the results file."""
    result: JSONObject = {name: _text(row.get(name)) for name in _FIELDS}
    return result | {"timestamp": _text(row.get("updated_at")) or now}


def notification(result: JSONObject) -> str:
    """What the people of the organisation are told about one result."""
    return f"Delegation {result['delegation_id']} {result['status']}: {_line(result)}"


class WakeUp(NamedTuple):
    """A message of the workspace to itself; the same results make the same message."""

    message_id: str
    text: str


def wake_up(results: list[JSONObject], parent_id: str) -> WakeUp:
    """Name results by id, status and summary, never by what the peer answered: that text is not trusted."""
    lines = [f"- {one.get('delegation_id')}: {one.get('status')}: {_line(one)}" for one in results]
    text = "\n".join(
        [
            "Results of delegations have arrived:",
            *lines,
            "Read them with check_delegation_status, and go on with the work that waited for them.",
            *([f"Then report to your parent workspace {parent_id}."] if parent_id else []),
        ]
    )
    digest = hashlib.sha256(text.encode()).hexdigest()
    return WakeUp(str(uuid.uuid5(_NAMESPACE, digest)), text)


def _line(result: JSONObject) -> str:
    text = " ".join(_text(result.get("summary")).split())
    return text if len(text) <= _MAX_SUMMARY else text[: _MAX_SUMMARY - 3] + "..."


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""
