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
    unclaimed = visibility.hidden_from(principal, now)
    if unclaimed is None:
        return events
    named = {workspace_id for event in events for workspace_id in event.named_workspaces()}
    hidden = tx.workspaces.unclaimed(named, unclaimed) - {principal.workspace_id or ""}
    return _shown(principal, events, hidden)


def _shown(principal: Principal, events: Sequence[Event], hidden: frozenset[str]) -> list[Event]:
    is_operator = visibility.is_operator(principal)
    shown = (event for event in events if is_operator or not event.is_for_operators)
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
        unclaimed = visibility.hidden_from(self._principal, self._clock.now())
        if unclaimed is None:
            return events
        named = {workspace_id for event in events for workspace_id in event.named_workspaces()}
        unknown = named - self._unclaimable
        if not unknown:
            return _shown(self._principal, events, frozenset())
        hidden = await self._storage.glance(lambda tx: tx.workspaces.unclaimed(unknown, unclaimed))
        if len(self._unclaimable) > MAX_KNOWN:
            self._unclaimable = {self._principal.workspace_id or ""}
        self._unclaimable |= unknown - hidden
        return _shown(self._principal, events, hidden)
