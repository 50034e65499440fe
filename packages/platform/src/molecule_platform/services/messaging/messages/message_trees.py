"""Message trees: who asked whom, from the message that began it all to everything that was sent for it."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from molecule_platform.domain import message_access
from molecule_platform.domain.messages import Message
from molecule_platform.domain.principals import Principal
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.mailbox import TraceFilter
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.identity import authorizer
from molecule_wire import times

MAX_DEPTH = 64
"""How many levels are followed, upwards and downwards; a delegation ends at eight."""
MAX_VISITED = 10_000
"""How many messages are looked at, of which the principal may see only some."""
PAGE = 250


class MessageTrees:
    """Reads the tree that a message belongs to."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def tree(self, principal: Principal, message_id: str, limit: int) -> dict[str, Any]:
        """The tree around a message, parents first, as far as the principal may see it. Raises 404."""
        now = self._clock.now()

        def work(tx: Transaction) -> dict[str, Any]:
            root = self._root(tx, principal, message_id, now)
            found: list[Message] = []
            truncated = False
            for number, one in enumerate(_walk(tx, root)):
                is_readable = authorizer.may_read(tx, principal, one, now)
                truncated = number == MAX_VISITED or (is_readable and len(found) == limit)
                if truncated:
                    break
                found += [one] if is_readable else []
            names = {target: _name(tx, target) for target in {one.target_id for one in found}}
            rows = [_row(one, names[one.target_id], now) for one in found]
            return {"root": root.id, "messages": rows, "truncated": truncated}

        return await self._storage.read(work)

    def _root(self, tx: Transaction, principal: Principal, message_id: str, now: datetime) -> Message:
        """The topmost message that leads to this one and that the principal may see."""
        [*found] = tx.mailbox.trace(TraceFilter(ids=(message_id,)), 1)
        if not found or not authorizer.may_read(tx, principal, found[0], now):
            raise message_access.message_not_found(message_id)
        root = found[0]
        for _ in range(MAX_DEPTH):
            above = root.parent_message_id
            parents = tx.mailbox.trace(TraceFilter(ids=(above,)), 1) if above else []
            if not parents or not authorizer.may_read(tx, principal, parents[0], now):
                break
            root = parents[0]
        return root


def _walk(tx: Transaction, root: Message) -> Iterator[Message]:
    """The message and what was sent for it, level by level."""
    yield root
    level = [root.id]
    for _ in range(MAX_DEPTH):
        below: list[str] = []
        after = 0
        while page := tx.mailbox.trace(TraceFilter(parent_ids=level, after=after), PAGE):
            yield from page
            below += [one.id for one in page]
            after = page[-1].seq
        level = below
        if not level:
            return


def _name(tx: Transaction, workspace_id: str) -> str:
    workspace = tx.workspaces.get(workspace_id)
    return "" if workspace is None else workspace.name


def _row(message: Message, target_name: str, now: datetime) -> dict[str, Any]:
    leased, finished = message.leased_at, message.finished_at
    return {
        "id": message.id,
        "parent_message_id": message.parent_message_id,
        "caller": message.caller,
        "caller_name": message.caller_name,
        "target_id": message.target_id,
        "target_name": target_name,
        "kind": message.kind,
        "status": message.status,
        "delegation_id": message.delegation_id,
        "created_at": times.format_time(message.created_at),
        "leased_at": None if leased is None else times.format_time(leased),
        "finished_at": None if finished is None else times.format_time(finished),
        "waited_ms": _milliseconds(message.created_at, (leased, finished, now)),
        "worked_ms": None if leased is None else _milliseconds(leased, (finished, now)),
        "attempts": message.attempts,
        "error": message.error,
    }


def _milliseconds(since: datetime, until: Iterable[datetime | None]) -> int:
    """From one moment to the first that is known."""
    end = next(moment for moment in until if moment is not None)
    return max(round((end - since).total_seconds() * 1000), 0)
