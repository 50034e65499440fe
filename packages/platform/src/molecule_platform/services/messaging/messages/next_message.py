"""Which messages of a workspace are handed out next, without reading all that wait."""

from collections.abc import Callable
from datetime import datetime

from molecule_platform.domain import messages
from molecule_platform.domain.messages import QueuedMessage
from molecule_platform.ports.storage import Transaction

# The next ones are almost always among so many more than are asked for.
MORE = 32


def next_messages(
    tx: Transaction,
    workspace_id: str,
    now: datetime,
    limit: int,
    wanted: Callable[[QueuedMessage], bool],
    *,
    worker: str | None = None,
    parallel_contexts: bool = False,
) -> list[str]:
    """The ids of the next messages, at most `limit`, of those that are wanted."""

    def among(open_messages: list[QueuedMessage]) -> list[str]:
        considered = [one for one in open_messages if one.status == "leased" or wanted(one)]
        return messages.choose(considered, now, limit, worker=worker, parallel_contexts=parallel_contexts)

    most = limit + MORE
    first = tx.mailbox.first_waiting(workspace_id, now, most)
    chosen = among(first)
    # Whoever comes later in the order never changes what becomes of those before.
    if len(chosen) == limit or sum(one.status == "accepted" for one in first) < most:
        return chosen
    return among(tx.mailbox.waiting(workspace_id))
