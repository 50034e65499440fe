"""Keeping leases: while an agent works on messages, nobody else may get them."""

import logging
import threading
from typing import TYPE_CHECKING

import requests

from molecule_agent import errors
from molecule_wire.calls import InboundMessage, inbox

if TYPE_CHECKING:
    from molecule_agent.client import RemoteAgentClient

TICK = 0.5

log = logging.getLogger(__name__)


class HeldLease:
    """One leased message. By our own clock, so that a skewed one on either side does no harm."""

    def __init__(self, message: InboundMessage, now: float, length: float) -> None:
        assert message.lease is not None
        self.message = message
        self.token = message.lease.token
        self.started = False
        self._length = length
        self._lost = False
        self.renewed(now)

    def renewed(self, at: float) -> None:
        """The lease counts anew from the moment at which its renewal was asked for."""
        self._renew_at = at + self._length / 2
        self._ends_at = at + self._length

    def lose(self) -> None:
        """Somebody else may have the message now; whoever works on it may as well stop."""
        self._lost = True
        self.message.cancelled.set()

    def lives(self, now: float) -> bool:
        """Whether the message is still ours."""
        return not self._lost and now < self._ends_at

    def wants_renewal(self, now: float) -> bool:
        """Whether half of the lease is over."""
        return self.lives(now) and now >= self._renew_at


class LeaseRenewer:
    """Renews leases in a thread of its own for as long as it is entered, and lets the heartbeat go on."""

    def __init__(self, client: "RemoteAgentClient", length: float, messages: list[InboundMessage]) -> None:
        self._client = client
        self._length = length
        now = client._clock.monotonic()
        self.held = [HeldLease(message, now, length) for message in messages]
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="molecule-leases", daemon=True)

    def __enter__(self) -> "LeaseRenewer":
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._done.set()
        for held in self.unsettled():
            if not self.release(held):
                return  # the others would only wait for the same silence

    def unsettled(self) -> list[HeldLease]:
        """What is still held."""
        with self._lock:
            return list(self.held)

    def settled(self, held: HeldLease) -> None:
        """Renew this one no longer."""
        with self._lock:
            if held in self.held:
                self.held.remove(held)

    def release(self, held: HeldLease) -> bool:
        """Give a message back; false when that was not possible and its lease must end by itself."""
        self.settled(held)
        request = inbox.release(self._client.workspace_id, held.message.message_id, lease_token=held.token)
        try:
            self._client._perform(request, lambda reply: None)
        except (errors.MoleculeError, requests.RequestException) as error:
            log.info("message %s could not be released: %s", held.message.message_id, error)
            return False
        return True

    def _run(self) -> None:
        tick = min(TICK, self._length / 10)
        while not self._done.wait(tick):
            for held in self.unsettled():
                if held.wants_renewal(self._client._clock.monotonic()):
                    self._renew(held)
            if beat := self._client._heartbeat_if_due:
                beat()

    def _renew(self, held: HeldLease) -> None:
        asked_at = self._client._clock.monotonic()
        request = inbox.extend(
            self._client.workspace_id, held.message.message_id, lease_token=held.token, seconds=self._length
        )
        try:
            answer = self._client._perform(request, inbox.read_extended)
        except (errors.ConflictError, errors.NotFoundError, errors.GoneError):
            held.lose()
        except Exception as error:  # noqa: BLE001 - without this thread every lease would end
            log.info("the lease of %s could not be renewed yet: %s", held.message.message_id, error)
        else:
            held.renewed(asked_at)
            if answer.cancel_requested:
                held.message.cancelled.set()
