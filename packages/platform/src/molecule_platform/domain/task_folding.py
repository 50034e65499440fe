"""Many events made into one task, in time that grows with their number and not with its square."""

from collections.abc import Iterable, Iterator

from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import tasks as machine

UPDATE = "artifactUpdate"


def fold_all(current: JSONObject | None, events: Iterable[JSONObject]) -> JSONObject | None:
    """The task after all these 1.0 events, which are used up; one that makes no sense is left out."""
    for event in _joined(events):
        try:
            current = machine.fold(current, event)
        except machine.EventRefused:
            continue
    return current


def _joined(events: Iterable[JSONObject]) -> Iterator[JSONObject]:
    """The events, with pieces of one artifact that follow each other as one piece.

    An agent that streams its words sends thousands of them, and each fold copies what came before.
    """
    last: JSONObject | None = None
    for event in events:
        if last is not None and _goes_on(last, event):
            _extend(last[UPDATE], event[UPDATE])
            continue
        if last is not None:
            yield last
        last = event
    if last is not None:
        yield last


def _goes_on(last: JSONObject, event: JSONObject) -> bool:
    before, after = last.get(UPDATE), event.get(UPDATE)
    if not isinstance(before, dict) or not isinstance(after, dict) or not after.get("append"):
        return False
    if len(last) != 1 or len(event) != 1:
        return False
    same_task = all(before.get(name) == after.get(name) for name in ("taskId", "contextId"))
    return same_task and _piece(before) == _piece(after) is not None


def _piece(update: JSONObject) -> str | None:
    """The id of the artifact that an update holds a readable piece of."""
    artifact = update.get("artifact")
    if not isinstance(artifact, dict) or not isinstance(artifact.get("parts"), list):
        return None
    name = artifact.get("artifactId")
    return name if isinstance(name, str) else None


def _extend(update: JSON, more: JSON) -> None:
    assert isinstance(update, dict)
    assert isinstance(more, dict)
    artifact, piece = update["artifact"], more["artifact"]
    assert isinstance(artifact, dict)
    assert isinstance(piece, dict)
    parts, new = artifact["parts"], piece["parts"]
    assert isinstance(parts, list)
    assert isinstance(new, list)
    parts.extend(new)
    artifact |= {name: value for name, value in piece.items() if name not in ("parts", "metadata")}
    _add_metadata(artifact, piece)
    _add_metadata(update, more)


def _add_metadata(holder: JSONObject, more: JSONObject) -> None:
    old, new = holder.get("metadata"), more.get("metadata")
    if isinstance(new, dict):
        holder["metadata"] = {**old, **new} if isinstance(old, dict) else new
