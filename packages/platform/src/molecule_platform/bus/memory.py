"""The bus of a single process."""

from molecule_platform.bus import fanout
from molecule_platform.ports import bus


class MemoryBus:
    """Calls the handlers while publishing; see `ports.bus.Bus`."""

    def __init__(self) -> None:
        self._handlers = fanout.Fanout()
        self._open = False

    @property
    def shared(self) -> bool:
        """Nobody else can be here."""
        return False

    @property
    def healthy(self) -> bool:
        """Whether it is started and not closed."""
        return self._open

    async def start(self) -> None:
        """Begin to carry messages."""
        self._open = True

    async def close(self) -> None:
        """Stop carrying messages and forget all subscriptions."""
        self._open = False
        self._handlers.clear()

    async def publish(self, subject: str, payload: bytes) -> None:
        """Call every matching handler, or nobody when the bus is not open."""
        fanout.check_subject(subject)
        fanout.check_payload(payload)
        if self._open:
            self._handlers.deliver(subject, payload)

    async def subscribe(self, subject: str, handler: bus.Handler) -> bus.Subscription:
        """Call `handler` for what is published from now on."""
        fanout.check_pattern(subject)
        return _MemorySubscription(self._handlers, self._handlers.add(subject, handler))


class _MemorySubscription:
    def __init__(self, handlers: fanout.Fanout, seat: fanout.Subscriber) -> None:
        self._handlers = handlers
        self._seat = seat

    async def close(self) -> None:
        self._handlers.remove(self._seat)
