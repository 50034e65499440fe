"""Resumption of a stream: where a follower comes in that has seen the events up to a number."""

from molecule_wire import JSONObject
from molecule_wire.a2a import errors

LAST_EVENT_ID = "Last-Event-ID"


def last_seen(given: str, newest: int) -> int:
    """The number that `Last-Event-ID` names. Raises -32602 when the task has no such event."""
    if not (given.isascii() and given.isdecimal() and len(given) < 10):
        raise errors.invalid_params(errors.Violation(LAST_EVENT_ID, "is the number of an event"))
    if int(given) > newest:
        sentence = f"is beyond the last event of the task, which is {newest}"
        raise errors.invalid_params(errors.Violation(LAST_EVENT_ID, sentence))
    return int(given)


def nothing_follows(state: str) -> errors.A2AError:
    """The refusal to stream a task that has ended and was seen whole."""
    sentence = f"The task is {state}: nothing follows, get it instead"
    return errors.protocol_error(errors.UNSUPPORTED_OPERATION, sentence)


def resumed_task(task_id: str, context_id: str | None, status: JSONObject, seen: int) -> JSONObject:
    """The first event of a stream that goes on: as much of the task as its follower needs."""
    return {
        "id": task_id,
        "contextId": context_id,
        "status": status,
        "metadata": {"molecule.resumedAfter": seen},
    }
