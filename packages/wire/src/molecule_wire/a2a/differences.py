"""What a task's snapshot says that its events have not said yet.

A reader that lost its stream asks for the task and goes on as if it had not: the difference, as events, makes
the task it knew into the one it got.
"""

from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import tasks


def difference(known: JSONObject, snapshot: JSONObject) -> list[JSONObject]:
    """The 1.0 events that turn the known task into the snapshot: artifacts first, then the status.

    What the user said meanwhile only a Task can tell: then there is one event, the whole of it.
    """
    if len(_words_of_user(snapshot)) > len(_words_of_user(known)):
        return [_retold(known, snapshot)]
    events = [
        event
        for artifact in _listed(snapshot, "artifacts")
        if isinstance(artifact, dict) and (event := _artifact_event(known, artifact)) is not None
    ]
    if _says(known) != _says(snapshot):
        update: JSONObject = {**_names(known), "status": snapshot["status"]}
        metadata = snapshot.get("metadata")
        if isinstance(metadata, dict) and metadata:
            update["metadata"] = metadata
        events.append({"statusUpdate": update})
    return events


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
