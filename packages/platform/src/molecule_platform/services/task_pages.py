"""Lists of tasks, page by page: always the caller's own."""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from molecule_platform.domain import results
from molecule_platform.domain.tasks import Task
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.ports.tasks import TaskFilter
from molecule_platform.services import task_log
from molecule_platform.services.rotation import TextSealing
from molecule_platform.services.tasks import Asking
from molecule_wire import JSON, JSONObject, times
from molecule_wire.a2a import errors, task_lists

_FILTERS = ("contextId", "status", "statusTimestampAfter")


@dataclass(frozen=True)
class TaskPage:
    """Whole tasks in 1.0, and how to get the next ones."""

    tasks: list[dict[str, Any]]
    next_token: str
    size: int
    total: int


class TaskPages:
    """Reads pages. Where one ended is sealed into its token, bound to the caller and to what was asked."""

    def __init__(self, storage: Storage, sealing: TextSealing) -> None:
        self._storage = storage
        self._sealing = sealing

    async def page(self, asking: Asking, params: JSONObject) -> TaskPage:
        """A page of what checked params ask for, the newest status first. Raises -32602 for a false token."""
        place = _binding(asking, params)
        wanted = _filter(asking, params, self._before(params.get("pageToken"), place))
        size = params.get("pageSize")
        limit = size if isinstance(size, int) else task_lists.DEFAULT_PAGE

        def work(tx: Transaction) -> TaskPage:
            found = tx.tasks.page(wanted, limit + 1)
            shown = found[:limit]
            token = self._token(shown[-1], place) if len(found) > limit else ""
            whole = [task_log.folded(tx, task) for task in shown]
            return TaskPage(whole, token, limit, tx.tasks.count(wanted))

        return await self._storage.read(work)

    def _token(self, last: Task, place: str) -> str:
        return self._sealing.seal(json.dumps([last.status_at.isoformat(), last.id]), place)

    def _before(self, token: JSON, place: str) -> tuple[datetime, str] | None:
        if not isinstance(token, str) or not token:
            return None
        try:
            at, task_id = json.loads(self._sealing.open(token, place))
            return datetime.fromisoformat(at), task_id
        except ValueError as problem:
            sentence = "is not one that a page of this list gave you: begin again without it"
            raise errors.invalid_params(errors.Violation("pageToken", sentence)) from problem


def _filter(asking: Asking, params: JSONObject, before: tuple[datetime, str] | None) -> TaskFilter:
    context, state, after = params.get("contextId"), task_lists.state_in(params), params.get(_FILTERS[2])
    return TaskFilter(
        asking.workspace.id,
        owner=asking.principal.text,
        tenant=asking.tenant,
        context_id=context if isinstance(context, str) and context else None,
        states=() if state is None else (results.state_0_3(state),),
        status_after=times.parse_time(after) if isinstance(after, str) and after else None,
        before=before,
    )


def _binding(asking: Asking, params: JSONObject) -> str:
    asked = [asking.principal.text, asking.workspace.id, asking.tenant, *map(params.get, _FILTERS)]
    return "task page|" + hashlib.sha256(json.dumps(asked).encode()).hexdigest()
