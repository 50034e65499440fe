"""Listing tasks: what a page is asked for."""

from collections.abc import Iterator

from molecule_wire import JSONObject, times
from molecule_wire.a2a import members, tasks
from molecule_wire.a2a.errors import Violation

DEFAULT_PAGE, LARGEST_PAGE = 50, 100

_NO_STATE = (None, "", tasks.TaskState.UNSPECIFIED.value)


def violations(params: JSONObject) -> Iterator[Violation]:
    """What is wrong with the params of a list."""
    yield from members.whole(params, "pageSize", 1, LARGEST_PAGE)
    yield from members.history_length(params)
    yield from members.flag(params, "includeArtifacts")
    yield from members.named_if_given(params, "contextId")
    if not isinstance(params.get("pageToken"), str | None):
        yield Violation("pageToken", "must be a string")
    state = params.get("status")
    if state not in _NO_STATE and (not isinstance(state, str) or state not in tasks.STATES):
        yield Violation("status", f"must be one of {', '.join(sorted(tasks.STATES))}")
    yield from _time(params)


def _time(params: JSONObject) -> Iterator[Violation]:
    given = params.get("statusTimestampAfter")
    if given in (None, ""):
        return
    try:
        times.parse_time(given if isinstance(given, str) else "")
    except ValueError:
        yield Violation("statusTimestampAfter", "must be a time like 2026-01-31T10:15:30.123Z")


def state_in(params: JSONObject) -> str | None:
    """The state that checked params ask for, None for any."""
    state = params.get("status")
    return state if isinstance(state, str) and state not in _NO_STATE else None
