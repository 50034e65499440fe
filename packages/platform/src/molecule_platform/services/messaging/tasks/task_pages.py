"""Lists of tasks, page by page: always the caller's own."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from molecule_platform.domain import results
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.ports.tasks import TaskFilter
from molecule_platform.services.keys.key_rotation import SealedTextColumn
from molecule_platform.services.messaging.tasks import task_log
from molecule_platform.services.messaging.tasks.task_service import TaskQuery
from molecule_wire import JSONObject
from molecule_wire.a2a.server import paging
from molecule_wire.a2a.server.paging import ListQuery


@dataclass(frozen=True)
class TaskPage:
    """Whole tasks in 1.0, and how to get the next ones."""

    tasks: list[dict[str, Any]]
    next_token: str
    size: int
    total: int


class TaskPages:
    """Reads pages. Where one ended is sealed into its token, bound to the caller and to what was asked."""

    def __init__(self, storage: Storage, sealing: SealedTextColumn) -> None:
        self._storage = storage
        self._seal = sealing

    async def page(self, asking: TaskQuery, params: JSONObject) -> TaskPage:
        """A page of what checked params ask for, the newest status first. Raises -32602 for a false token."""
        owner = ("task page", asking.principal.text, asking.workspace.id, asking.tenant)
        query = paging.list_query(params, owner, self._seal.open)
        wanted = _filter(asking, query)

        def work(tx: Transaction) -> TaskPage:
            shown, more = tx.tasks.page(wanted, query.limit)
            token = ""
            if more:
                last = shown[-1].status_at.isoformat(), shown[-1].id
                token = paging.next_token(last, query, self._seal.seal)
            whole = [task_log.folded(tx, task) for task in shown]
            return TaskPage(whole, token, query.limit, tx.tasks.count(wanted))

        return await self._storage.read(work)


def _filter(asking: TaskQuery, query: ListQuery) -> TaskFilter:
    before = None
    if query.before is not None:
        before = datetime.fromisoformat(query.before[0]), query.before[1]
    return TaskFilter(
        asking.workspace.id,
        owner=asking.principal.text,
        tenant=asking.tenant,
        context_id=query.context_id,
        states=() if query.state is None else (results.state_0_3(query.state),),
        status_after=query.after,
        before=before,
    )
