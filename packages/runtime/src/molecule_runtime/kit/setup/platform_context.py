"""What the platform says of a workspace's place in the organisation.

Everything that comes over the network has three seconds; what does not come is empty, with one warning.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from molecule_runtime.domain.peers import children_of
from molecule_runtime.ports.platform import Platform
from molecule_wire import JSONObject
from molecule_wire.calls.values import CallFailed

NETWORK_TIMEOUT_SECONDS = 3.0
INSTRUCTIONS_COPY = ".molecule/instructions.md"

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass
class PlatformContext:
    """Peers, children, the parent's context and the platform's instructions."""

    peers: list[JSONObject] = field(default_factory=list[JSONObject])
    children: list[JSONObject] = field(default_factory=list[JSONObject])
    parent_context: list[JSONObject] = field(default_factory=list[JSONObject])
    instructions: str = ""


async def read_platform_context(
    platform: Platform, config_path: Path, last: PlatformContext
) -> PlatformContext:
    """Ask for peers, the parent's context and instructions at once; what does not come is as it was last.

    Before its first registration a workspace has no token, so nothing is asked then.
    """
    copy = config_path / INSTRUCTIONS_COPY
    if not platform.has_token:
        return replace(last, instructions=_read_copy(copy))
    parent_id = os.environ.get("PARENT_ID", "").strip()
    peers, parent_context, instructions = await asyncio.gather(
        within("peers", platform.peers, last.peers),
        within("the context of the parent", lambda: _shared(platform, parent_id), last.parent_context),
        within("platform instructions", platform.instructions, None),
    )
    return PlatformContext(
        peers,
        children_of(peers, platform.workspace_id),
        parent_context,
        _read_copy(copy) if instructions is None else _keep_copy(copy, instructions),
    )


async def _shared(platform: Platform, parent_id: str) -> list[JSONObject]:
    return await platform.shared_context(parent_id) if parent_id else []


async def within(what: str, call: Callable[[], Awaitable[T]], otherwise: T) -> T:
    """What a call to the platform gives in three seconds, or something else with a warning."""
    try:
        async with asyncio.timeout(NETWORK_TIMEOUT_SECONDS):
            return await call()
    except (CallFailed, OSError) as problem:
        log.warning("%s: the platform did not answer (%s); going on without", what, str(problem) or "timeout")
        return otherwise


def _keep_copy(path: Path, instructions: str) -> str:
    """Keep the last good instructions for a start without the platform."""
    from molecule_plugin.safe_paths import write_atomically

    try:
        if instructions != _read_copy(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, instructions.encode(errors="replace"), 0o600)
    except OSError as problem:
        log.warning("the platform's instructions cannot be kept in %s: %s", path, problem.strerror)
    return instructions


def _read_copy(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
