"""The conversation of each context, as far as the kit remembers it."""

from collections import OrderedDict
from typing import Any

from molecule_runtime.domain.turns import HistoryItem
from molecule_wire import JSONObject

MAX_ITEMS, MAX_CHARACTERS = 50, 64 * 1024
MAX_CONTEXTS = 1000


class HistoryStore:
    """The last words and the state of each context; the context that was used longest ago is forgotten."""

    def __init__(self) -> None:
        self._items: OrderedDict[str, list[HistoryItem]] = OrderedDict()
        self._sizes: dict[str, int] = {}
        """The characters of each conversation."""
        self._states: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def of(self, context_id: str) -> list[HistoryItem]:
        """What was said so far, the oldest first."""
        return list(self._items.get(context_id, ()))

    def state(self, context_id: str) -> dict[str, Any]:
        """The dictionary in which an engine keeps what belongs to a context."""
        state = self._states.setdefault(context_id, {})
        self._states.move_to_end(context_id)
        if len(self._states) > MAX_CONTEXTS:
            self._states.popitem(last=False)
        return state

    def append(self, context_id: str, question: str, answer: str) -> None:
        """Remember one turn."""
        items = self._items.setdefault(context_id, [])
        self._items.move_to_end(context_id)
        items += [HistoryItem("user", question), HistoryItem("assistant", answer)]
        size = self._sizes.get(context_id, 0) + len(question) + len(answer)
        too_many = len(items) - MAX_ITEMS
        if too_many > 0:
            size -= sum([len(item.text) for item in items[:too_many]])
            del items[:too_many]
        while size > MAX_CHARACTERS and len(items) > 1:
            size -= len(items.pop(0).text)
        self._sizes[context_id] = size
        while len(self._items) > MAX_CONTEXTS:
            gone, _ = self._items.popitem(last=False)
            del self._sizes[gone]

    def dump(self) -> JSONObject:
        """Everything, for the snapshot."""
        contexts = [*self._items, *(name for name in self._states if name not in self._items)]
        return {
            name: {
                "history": [{"role": item.role, "text": item.text} for item in self._items.get(name, ())],
                "state": self._states.get(name, {}),
            }
            for name in contexts
        }

    def load(self, sessions: JSONObject) -> None:
        """What a snapshot has; whatever is not of its form is left out."""
        for name, kept in sessions.items():
            if not isinstance(kept, dict):
                continue
            items = parse_history(kept.get("history"))
            if items:
                self._items[name] = items[-MAX_ITEMS:]
                self._sizes[name] = sum(len(item.text) for item in self._items[name])
            state = kept.get("state")
            if isinstance(state, dict) and state:
                self._states[name] = dict(state)


def parse_history(value: object) -> list[HistoryItem]:
    """The history in a message's metadata: items with a role and text, or parts."""
    items: list[HistoryItem] = []
    for entry in value if isinstance(value, list) else []:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(entry, dict):
            continue
        row: JSONObject = entry  # pyright: ignore[reportUnknownVariableType]
        text = row.get("text")
        parts = row.get("parts")
        if not isinstance(text, str) and isinstance(parts, list):
            texts = [part.get("text") for part in parts if isinstance(part, dict)]
            text = " ".join(piece for piece in texts if isinstance(piece, str))
        if isinstance(text, str) and text:
            is_own = row.get("role") in ("assistant", "agent", "ai", "ROLE_AGENT")
            items.append(HistoryItem("assistant" if is_own else "user", text))
    return items
