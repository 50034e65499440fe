"""What a task's snapshot says that its events have not said yet, and the other way round.

A reader that lost its stream asks for the task and goes on as if it had not: the difference, as events, makes
the task it knew into the one it got.
"""

from collections.abc import Sequence

from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import tasks


def difference(known: JSONObject, snapshot: JSONObject, *, again: bool = False) -> list[JSONObject]:
    """The 1.0 events that turn the known task into the snapshot: artifacts first, then the status.

    What the user said meanwhile only a Task can tell: then there is one event, the whole of it. `again` tells
    the status also where it is the known one: an agent may ask the same question twice.
    """
    if len(_words_of_user(snapshot)) > len(_words_of_user(known)):
        return [_retold(known, snapshot)]
    events = [
        event
        for artifact in _listed(snapshot, "artifacts")
        if isinstance(artifact, dict) and (event := _artifact_event(known, artifact)) is not None
    ]
    if again or _says(known) != _says(snapshot):
        update: JSONObject = {**_names(known), "status": snapshot["status"]}
        metadata = snapshot.get("metadata")
        if isinstance(metadata, dict) and metadata:
            update["metadata"] = metadata
        events.append({"statusUpdate": update})
    return events


def unseen(snapshot: JSONObject, events: Sequence[JSONObject]) -> Sequence[JSONObject]:
    """The events of a stream that are not in a snapshot which was read while they came.

    Events have no numbers of their own: as many of the first ones as the snapshot ends with are in it.
    """
    seen = next(n for n in range(len(events), -1, -1) if _ends_with(snapshot, events[:n]))
    return events[seen:]


def _ends_with(snapshot: JSONObject, events: Sequence[JSONObject]) -> bool:
    """Whether these may be the last events that made a task what it is."""
    begun: set[JSON] = set()
    pieces: dict[JSON, list[JSON]] = {}
    status: JSONObject | None = None
    for event in events:
        update, changed = event.get("artifactUpdate"), event.get("statusUpdate")
        artifact = update.get("artifact") if isinstance(update, dict) else None
        if isinstance(update, dict) and isinstance(artifact, dict):
            name, parts = artifact.get("artifactId"), _listed(artifact, "parts")
            if not update.get("append"):
                begun.add(name)
                pieces.pop(name, None)
            pieces[name] = [*pieces.get(name, []), *parts]
        elif isinstance(changed, dict):
            status = changed
        else:
            return False
    for name, parts in pieces.items():
        found = _listed(_artifact(snapshot, name) or {}, "parts")
        if (found if name in begun else found[len(found) - len(parts) :]) != parts:
            return False
    return status is None or _says(status) == _says(snapshot)


def _words_of_user(task: JSONObject) -> list[JSON]:
    history = _listed(task, "history")
    return [said for said in history if isinstance(said, dict) and said.get("role") == "ROLE_USER"]


def _retold(known: JSONObject, snapshot: JSONObject) -> JSONObject:
    """The snapshot as an event; artifacts that it leaves out are still there."""
    told = _listed(snapshot, "artifacts")
    kept = [
        artifact
        for artifact in _listed(known, "artifacts")
        if isinstance(artifact, dict) and _artifact(snapshot, artifact.get("artifactId")) is None
    ]
    return {"task": {**snapshot, "artifacts": [*kept, *told]} if kept else snapshot}


def _artifact_event(known: JSONObject, artifact: JSONObject) -> JSONObject | None:
    before = _artifact(known, artifact.get("artifactId"))
    if before == artifact:
        return None
    if before is None:
        return _update(known, artifact, append=False)
    old, new = _listed(before, "parts"), _listed(artifact, "parts")
    same_else = {**before, "parts": None} == {**artifact, "parts": None}
    if same_else and len(new) > len(old) and new[: len(old)] == old:
        return _update(known, {**artifact, "parts": new[len(old) :]}, append=True)
    return _update(known, artifact, append=False)


def _update(known: JSONObject, artifact: JSONObject, *, append: bool) -> JSONObject:
    update: JSONObject = {**_names(known), "artifact": artifact}
    if append:
        update["append"] = True
    return {"artifactUpdate": update}


def _artifact(task: JSONObject, artifact_id: JSON) -> JSONObject | None:
    for artifact in _listed(task, "artifacts"):
        if isinstance(artifact, dict) and artifact.get("artifactId") == artifact_id:
            return artifact
    return None


def _names(task: JSONObject) -> JSONObject:
    names: JSONObject = {"taskId": task["id"]}
    if task.get("contextId"):
        names["contextId"] = task["contextId"]
    return names


def _says(task: JSONObject) -> tuple[tasks.TaskState, JSON]:
    """The state and the words of it; the time at which it was said is nothing new."""
    status = task["status"]
    return tasks.state_of(task), status.get("message") if isinstance(status, dict) else None


def _listed(holder: JSONObject, name: str) -> list[JSON]:
    items = holder.get(name)
    return items if isinstance(items, list) else []
