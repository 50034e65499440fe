"""The desk: callers of this replica who wait for an outcome get it from whoever writes it, without asking."""

import asyncio
import weakref

from molecule_platform.domain.messages import Message
from molecule_platform.services.support import signals
from molecule_platform.services.support.signals import Signals


class Waiter:
    """One message whose outcome is waited for. It is remembered as long as somebody keeps it."""

    __slots__ = ("__weakref__", "_waiting", "ended", "is_fresh", "rings")

    def __init__(self, is_fresh: bool) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self.ended: Message | None = None
        # Nobody has looked yet: it was just accepted, and cannot have ended elsewhere.
        self.is_fresh = is_fresh
        # How often it rang: whoever looks elsewhere meanwhile must not miss that.
        self.rings = 0

    async def wait(self, heard: int, seconds: float) -> None:
        """Until it rings more often than that, or the time is over."""
        if self.rings != heard:
            return
        loop = asyncio.get_running_loop()
        called = loop.create_future()
        self._waiting.append(called)
        timer = loop.call_later(seconds, _call, called)
        try:
            await called
        finally:
            timer.cancel()
            self._waiting.remove(called)

    def ring(self) -> None:
        """The outcome is laid down, or has come about elsewhere: call everybody who waits here."""
        self.rings += 1
        for called in self._waiting:
            _call(called)


class OutcomeWaiters:
    """One per replica."""

    def __init__(self, bells_: Signals) -> None:
        self._slots: weakref.WeakValueDictionary[str, Waiter] = weakref.WeakValueDictionary()
        bells_.watch(signals.SETTLED, self._ring)

    def register(self, message_id: str) -> Waiter:
        """The place where the outcome of a new message is laid; keep it while it matters."""
        slot = self._slots[message_id] = Waiter(is_fresh=True)
        return slot

    def place(self, message_id: str) -> Waiter:
        """The place for a message that may have ended already."""
        slot = self._slots.get(message_id)
        if slot is None:
            slot = self._slots[message_id] = Waiter(is_fresh=False)
        return slot

    def _ring(self, message_id: str) -> None:
        """The message has ended somewhere: whoever expects that looks."""
        slot = self._slots.get(message_id)
        if slot is not None:
            slot.ring()

    def resolve(self, message: Message) -> None:
        """Lay down an outcome that was just committed."""
        slot = self._slots.get(message.id)
        if slot is not None:
            slot.ended = message
            slot.ring()


def _call(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
