"""Lists of tasks, page by page: always the caller's own."""

import base64
import hashlib
import hmac
import json
import os

from molecule_agent.a2a_server.task_log import Owner, TaskLog
from molecule_wire import JSON, JSONObject, times
from molecule_wire.a2a import errors, task_lists

_FILTERS = ("contextId", "status", "statusTimestampAfter")


class Pages:
    """Makes pages. Where one ended is said in its token, which is good for its caller and question alone."""

    def __init__(self) -> None:
        self._secret = os.urandom(32)

    def page(
        self, tasks: list[TaskLog], owner: Owner, params: JSONObject
    ) -> tuple[list[TaskLog], JSONObject]:
        """The tasks of a page, the newest status first, and what is said beside them."""
        fitting = [task for task in tasks if task.owner == owner and _fits(task, params)]
        fitting.sort(key=_place, reverse=True)
        before = self._before(params.get("pageToken"), owner, params)
        rest = [task for task in fitting if before is None or _place(task) < before]
        size = params.get("pageSize")
        limit = size if isinstance(size, int) else task_lists.DEFAULT_PAGE
        shown = rest[:limit]
        token = self._token(_place(shown[-1]), owner, params) if len(rest) > limit else ""
        return shown, {"nextPageToken": token, "pageSize": limit, "totalSize": len(fitting)}

    def _token(self, place: tuple[str, str], owner: Owner, params: JSONObject) -> str:
        said = json.dumps(place).encode()
        return base64.urlsafe_b64encode(self._seal(said, owner, params) + said).decode()

    def _before(self, token: JSON, owner: Owner, params: JSONObject) -> tuple[str, str] | None:
        if not isinstance(token, str) or not token:
            return None
        try:
            raw = base64.b64decode(token, altchars=b"-_", validate=True)
        except ValueError:
            raw = b""
        seal, said = raw[:32], raw[32:]
        if not hmac.compare_digest(seal, self._seal(said, owner, params)):
            sentence = "is not one that a page of this list gave you: begin again without it"
            raise errors.invalid_params(errors.Violation("pageToken", sentence))
        status_at, task_id = json.loads(said)
        return status_at, task_id

    def _seal(self, said: bytes, owner: Owner, params: JSONObject) -> bytes:
        asked = json.dumps([*owner, *map(params.get, _FILTERS)]).encode()
        return hmac.new(self._secret, asked + b"\n" + said, hashlib.sha256).digest()


def _place(task: TaskLog) -> tuple[str, str]:
    return task.status_at, task.id


def _fits(task: TaskLog, params: JSONObject) -> bool:
    context, state, after = params.get("contextId"), task_lists.state_in(params), params.get(_FILTERS[2])
    status = task.whole["status"]
    assert isinstance(status, dict)
    if context not in (None, "", task.context_id) or state not in (None, status["state"]):
        return False
    if not isinstance(after, str) or not after:
        return True
    return times.parse_time(task.status_at) > times.parse_time(after)
