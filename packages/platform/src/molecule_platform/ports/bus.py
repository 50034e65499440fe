"""Wake-ups between the parts of one process and between replicas."""

from collections.abc import Callable
from typing import Protocol

Handler = Callable[[str, bytes], None]
"""Called with the subject and the payload of one message."""

MAX_SUBJECT_CHARACTERS = 256
MAX_PAYLOAD_BYTES = 256 * 1024


class BusUnavailable(Exception):
    """The bus could not be reached at start. The text says which one and what to check."""


class Subscription(Protocol):
    """One handler's place on the bus."""

    async def close(self) -> None:
        """Stop calling the handler. It is not called again once this returns; closing twice is harmless."""
        ...


class Bus(Protocol):
    """Best-effort wake-ups and fan-out; storage stays the truth.

    * Nothing is carried that is not also in storage, and a message may be lost (an outage, a slow reader).
      Whoever waits for one re-reads storage itself at least once a second. Subscribe first, then read
      storage: what is published after `subscribe` returned is seen while the bus is healthy.
    * Handlers are called on the event loop, one at a time, and must neither block nor raise. What one raises
      is logged, and the others are still called.
    * A subscriber sees the messages of one publisher in the order in which they were published. A publisher's
      own process is served too, also while the bus is cut off from the other replicas.
    * Subjects are dot-separated parts of visible ASCII without `*` and `>`, at most 256 characters. A
      subscription may end in `.>`, which means everything below (`inbox.>` sees `inbox.a` and `inbox.a.b`,
      not `inbox`). Payloads are at most 256 KiB: send an id rather than the thing.
    * A malformed subject or an oversized payload is the caller's mistake and raises `ValueError`.
    """

    async def start(self) -> None:
        """Connect. Raises `BusUnavailable` when that does not work within a few seconds."""
        ...

    async def close(self) -> None:
        """Disconnect and forget all subscriptions. Harmless before `start` and when repeated."""
        ...

    async def publish(self, subject: str, payload: bytes) -> None:
        """Tell all subscribers, or drop the message. Never waits for the network, never raises for it."""
        ...

    async def subscribe(self, subject: str, handler: Handler) -> Subscription:
        """Call `handler` for what is published from now on. Works during an outage: it heals with the bus."""
        ...

    @property
    def shared(self) -> bool:
        """Whether other processes may be on this bus."""
        ...

    @property
    def healthy(self) -> bool:
        """Whether messages currently reach every replica."""
        ...
