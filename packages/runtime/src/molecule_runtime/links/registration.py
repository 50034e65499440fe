"""Registration of the workspace with its platform: again and again until it is accepted or hopeless."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from molecule_runtime.links import tokens
from molecule_runtime.links.platform_client import PlatformClient
from molecule_runtime.links.time_source import SYSTEM_TIME, TimeSource
from molecule_wire import JSONObject
from molecule_wire.calls import CallFailed, Registration
from molecule_wire.calls.registry import DeliveryMode

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 30.0
MAX_REFUSALS = 5
_SECRET_BYTES = 32

log = logging.getLogger("molecule_runtime")


@dataclass(frozen=True)
class RegistrationRequest:
    """What the workspace tells of itself; `replaces_worker` is the worker that leased before a restart."""

    url: str
    agent_card: JSONObject
    delivery_mode: DeliveryMode | None = None
    dispatch_secret: str = ""
    replaces_worker: str = ""


@dataclass(frozen=True)
class RegistrationFailure:
    """The platform will not have this workspace; the process has to end.

    `is_removed` says that the workspace is gone for good, which is no mistake of anybody.
    """

    status: int
    code: str
    sentence: str
    is_removed: bool = False


def new_dispatch_secret() -> str:
    """A secret that the platform shows with each message it pushes; it is kept in memory only."""
    return secrets.token_urlsafe(_SECRET_BYTES)


async def register(
    client: PlatformClient, announcement: RegistrationRequest, time_source: TimeSource = SYSTEM_TIME
) -> Registration | RegistrationFailure:
    """Register, with exponential back-off from 1 to 30 seconds.

    A platform that cannot be reached, or is in trouble, is tried for ever. After five refusals the failure is
    returned, and at once when the workspace was removed. A token that was minted is saved first.
    """
    pause, refusals, recovery = FIRST_PAUSE_SECONDS, 0, ""
    while True:
        try:
            answer = await _announce(client, announcement, recovery)
            await _keep(answer)
            return answer
        except CallFailed as refusal:
            if refusal.status == 410:
                return RegistrationFailure(410, refusal.code, str(refusal), is_removed=True)
            if refusal.status != 429 and refusal.status < 500:
                refusals += 1
                # A token that is no longer taken: the next try is proved by its recovery secret instead.
                recovery = "" if recovery else _recovery_after(refusal)
            if refusals >= MAX_REFUSALS:
                return RegistrationFailure(refusal.status, refusal.code, str(refusal))
            wait = max(pause, min(refusal.retry_after or 0.0, MAX_PAUSE_SECONDS))
            log.warning("the platform refused to register the workspace: %s; again in %g s", refusal, wait)
        except OSError as problem:
            wait = pause
            log.warning("the platform cannot be reached to register: %s; again in %g s", problem, wait)
        await time_source.sleep(wait)
        pause = min(pause * 2, MAX_PAUSE_SECONDS)


async def _announce(client: PlatformClient, announcement: RegistrationRequest, recovery: str) -> Registration:
    answer = await client.register(
        announcement.url,
        announcement.agent_card,
        delivery_mode=announcement.delivery_mode,
        dispatch_secret=announcement.dispatch_secret,
        replaces_worker=announcement.replaces_worker,
        recovery_secret=recovery,
    )
    if not answer.applied and not answer.auth_token:
        # Without a token the platform only says that somebody has the workspace already.
        sentence = "the workspace is claimed already and no token was shown; give this agent its token"
        raise CallFailed(401, "unauthenticated", sentence)
    return answer


def _recovery_after(refusal: CallFailed) -> str:
    if refusal.status != 401 or refusal.code == "enrolment-invalid":
        return ""
    return tokens.load_recovery_secret() or ""


async def _keep(answer: Registration) -> None:
    """Keep what was minted; the recovery secret first, so that a crash in between can be recovered from."""
    await _save(tokens.save_recovery_secret, answer.recovery_secret)
    await _save(tokens.save_token, answer.auth_token)


async def _save(save: Callable[[str], None], secret: str) -> None:
    if secret:
        try:
            await asyncio.to_thread(save, secret)
        except OSError as problem:
            log.error("the token cannot be kept for the next start: %s", problem)
