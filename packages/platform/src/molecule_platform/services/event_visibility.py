"""Which events exist for a principal: none that names a workspace which does not exist for it."""

from collections.abc import Sequence
from datetime import datetime

from molecule_platform.domain import visibility
from molecule_platform.domain.events import Event
from molecule_platform.domain.principals import Principal
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction

MAX_KNOWN = 10_000


def visible(tx: Transaction, principal: Principal, events: list[Event], now: datetime) -> list[Event]:
    """Those that the principal may see."""
    if visibility.sees_claimable(principal):
        return events
    named = {workspace_id for event in events for workspace_id in event.named_workspaces()}
    return _without(events, tx.workspaces.claimable(named, now) - {principal.workspace_id or ""})


def _without(events: Sequence[Event], hidden: frozenset[str]) -> list[Event]:
    shown = (event for event in events if not event.is_for_operators)
    return [event for event in shown if not hidden or hidden.isdisjoint(event.named_workspaces())]


class EventVisibility:
    """The same for one listener, which asks again and again.

    A workspace that cannot be claimed never can be again, so it is asked about once.
    """

    def __init__(self, storage: Storage, clock: Clock, principal: Principal) -> None:
        self._storage = storage
        self._clock = clock
        self._principal = principal
        self._unclaimable: set[str] = {principal.workspace_id or ""}

    async def of(self, events: list[Event]) -> list[Event]:
        """Those that the listener may see."""
        if visibility.sees_claimable(self._principal):
            return events
        named = {workspace_id for event in events for workspace_id in event.named_workspaces()}
        unknown, now = named - self._unclaimable, self._clock.now()
        if not unknown:
            return _without(events, frozenset())
        hidden = await self._storage.glance(lambda tx: tx.workspaces.claimable(unknown, now))
        if len(self._unclaimable) > MAX_KNOWN:
            self._unclaimable = {self._principal.workspace_id or ""}
        self._unclaimable |= unknown - hidden
        return _without(events, hidden)
