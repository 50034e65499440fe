"""The desk: callers of this replica who wait for an outcome get it from whoever writes it, without asking."""

import asyncio
import weakref
from dataclasses import dataclass, field

from molecule_platform.domain.messages import Message
from molecule_platform.services import bells
from molecule_platform.services.bells import Bells


@dataclass(eq=False)
class Slot:
    """One message whose outcome is waited for. It is remembered as long as somebody keeps it."""

    rung: asyncio.Event = field(default_factory=asyncio.Event)
    ended: Message | None = None
    # Nobody has looked yet: it was just accepted, and cannot have ended elsewhere.
    is_fresh: bool = True


class Desk:
    """One per replica."""

    def __init__(self, bells_: Bells) -> None:
        self._slots: weakref.WeakValueDictionary[str, Slot] = weakref.WeakValueDictionary()
        bells_.watch(bells.SETTLED, self._ring)

    def expect(self, message_id: str) -> Slot:
        """The place where the outcome of the message is laid; keep it while it matters."""
        slot = self._slots.get(message_id)
        if slot is None:
            slot = self._slots[message_id] = Slot()
        return slot

    def find(self, message_id: str) -> Slot | None:
        """The place, if somebody expects the outcome."""
        return self._slots.get(message_id)

    def _ring(self, message_id: str) -> None:
        """The message has ended somewhere: whoever expects that looks."""
        slot = self._slots.get(message_id)
        if slot is not None:
            slot.rung.set()

    def tell(self, message: Message) -> None:
        """Lay down an outcome that was just committed."""
        slot = self._slots.get(message.id)
        if slot is not None:
            slot.ended = message
            slot.rung.set()
