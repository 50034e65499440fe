"""A leased message as the output of a turn: progress while it runs, then one settlement."""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Protocol, TypeVar

from molecule_runtime.domain.turns import TurnOutcome, failure_metadata
from molecule_wire import JSON, JSONObject
from molecule_wire.calls import CallFailed, Reply, Request, inbox, workspaces

LEASE_SECONDS = 120.0
INITIAL_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.5, 30.0

T = TypeVar("T")
log = logging.getLogger("molecule_runtime")


class PlatformCalls(Protocol):
    """What a link needs of the platform client."""

    workspace_id: str

    async def perform(self, request: Request, read: Callable[[Reply], T]) -> T:
        """Send a request. Raises CallFailed, or OSError when the platform cannot be reached."""
        ...


class LeaseLost(Exception):
    """The platform gave the message to somebody else, or ended it."""


class LeaseOutput:
    """See `TurnOutput`. `stop` is called when the sender cancelled, or the lease is lost."""

    def __init__(self, calls: PlatformCalls, message_id: str, token: str, stop: Callable[[], object]) -> None:
        self._calls = calls
        self._message_id = message_id
        self.token = token
        self._stop = stop
        self._beside: list[JSON] = []
        self._is_lost = False
        # Reports are numbered and sent one after the other, so that none is appended twice or late.
        self._reporting = asyncio.Lock()
        self._reports = 0
        self.outcome: TurnOutcome | None = None

    async def working(self) -> None:
        """See `TurnOutput`: a lease says so by itself."""

    async def status(self, line: str) -> None:
        """See `TurnOutput`."""
        if line:
            await self._progress(text=line)

    async def text(self, delta: str, *, run: int, first: bool, last: bool) -> None:
        """See `TurnOutput`."""
        artifact: JSONObject = {"artifactId": f"{self._message_id}-{run}", "parts": [{"text": delta}]}
        await self._progress(artifact={**artifact, "append": not first, "lastChunk": last})

    async def artifact(self, name: str, parts: list[JSON]) -> None:
        """See `TurnOutput`."""
        artifact: JSONObject = {"artifactId": os.urandom(8).hex(), "name": name, "parts": parts}
        await self._progress(artifact=artifact)

    async def end(self, outcome: TurnOutcome) -> None:
        """See `TurnOutput`: it is kept, and settled by the link."""
        self.outcome = outcome

    async def keep(self) -> None:
        """Extend the lease for as long as this runs."""
        while not self._is_lost:
            await asyncio.sleep(LEASE_SECONDS / 3)
            request = inbox.extend(
                self._calls.workspace_id, self._message_id, lease_token=self.token, seconds=LEASE_SECONDS
            )
            extended = await self._sent(request, inbox.read_extended)
            if extended is not None and extended.cancel_requested:
                self._stop()

    async def _progress(self, text: str | None = None, artifact: JSONObject | None = None) -> None:
        async with self._reporting:
            self._reports += 1
            request = inbox.progress(
                self._calls.workspace_id,
                self._message_id,
                lease_token=self.token,
                text=text,
                artifact=artifact,
                number=self._reports,
            )
            is_cancelled = await self._sent(request, inbox.read_progress)
        if is_cancelled:
            self._stop()

    async def _sent(self, request: Request, read: Callable[[Reply], T]) -> T | None:
        """What the platform says; None when it cannot be asked. A lease that is lost ends the turn."""
        if self._is_lost:
            return None
        try:
            return await self._calls.perform(request, read)
        except CallFailed as refused:
            if is_final(refused):
                log.warning("the lease of %s is lost: %s", self._message_id, refused)
                self._is_lost = True
                self._stop()
        except OSError as problem:
            log.info("progress of %s was not told: %s", self._message_id, problem)
        return None


async def settle(calls: PlatformCalls, message_id: str, token: str, outcome: TurnOutcome) -> None:
    """Tell the outcome, for as long as it takes. Raises LeaseLost when nobody wants it any more."""
    request, pause = settlement(calls.workspace_id, message_id, token, outcome), INITIAL_PAUSE_SECONDS
    while True:
        try:
            return await calls.perform(request, workspaces.read_nothing)
        except CallFailed as refused:
            if is_final(refused):
                raise LeaseLost(str(refused)) from refused
        except OSError as problem:
            log.info("the outcome of %s waits: %s", message_id, problem)
        await asyncio.sleep(pause)
        pause = min(pause * 2, MAX_PAUSE_SECONDS)


def settlement(workspace_id: str, message_id: str, token: str, outcome: TurnOutcome) -> Request:
    """The call that settles a message with an outcome."""
    if outcome.code == "agent-stopping":
        return inbox.release(workspace_id, message_id, lease_token=token)
    if outcome.state in ("completed", "input-required"):
        parts: list[JSON] = [*([{"text": outcome.text}] if outcome.text else []), *outcome.parts]
        state = "input-required" if outcome.state == "input-required" else None
        return inbox.answer(workspace_id, message_id, parts=parts, lease_token=token, state=state)
    failure = failure_metadata(outcome)["molecule"]
    log.info("message %s: %s", message_id, failure)
    return inbox.fail(
        workspace_id, message_id, error=outcome.text, retryable=outcome.retryable, lease_token=token
    )


def is_final(refused: CallFailed) -> bool:
    """Whether asking again cannot help."""
    return refused.status < 500 and refused.status not in (408, 425, 429)
