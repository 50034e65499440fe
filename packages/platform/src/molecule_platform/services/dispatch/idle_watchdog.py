"""Patience with one agent: a wait ends when nothing was heard for too long and nobody vouches for it."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

from molecule_platform.domain.messages import Message
from molecule_platform.ports.storage import StorageDown, Transaction

Vouch = Callable[[], Awaitable[datetime | None]]
"""When the agent last showed that it works; None when it did not."""


AGAIN_SECONDS = 1.0


class IdleWatchdog:
    """Watches what its task waits for, and cancels it when patience is over; until then it is one timer."""

    __slots__ = (
        "_checking",
        "_heard_at",
        "_loop",
        "_seconds",
        "_since",
        "_timer",
        "_vouch",
        "_waiting",
        "is_over",
    )

    def __init__(self, seconds: float, vouch: Vouch, now: datetime) -> None:
        self._seconds = seconds
        self._vouch = vouch
        self._since = now
        self._loop = asyncio.get_running_loop()
        self._waiting = asyncio.current_task()
        self._heard_at = self._loop.time()
        self._checking: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(seconds, self._look)
        self.is_over = False

    def reset(self, now: datetime) -> None:
        """The agent said something."""
        self._since = now
        self._heard_at = self._loop.time()

    def end(self) -> None:
        """The wait is over."""
        self._timer.cancel()
        if self._checking is not None:
            self._checking.cancel()

    def timed_out(self) -> bool:
        """Whether it was this that cancelled the task, and nobody else; the task then goes on."""
        return self.is_over and self._waiting is not None and self._waiting.uncancel() == 0

    def _look(self) -> None:
        left = self._heard_at + self._seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._checking = self._loop.create_task(self._check())

    async def _check(self) -> None:
        try:
            sign = await self._vouch()
        except StorageDown:
            self._timer = self._loop.call_later(AGAIN_SECONDS, self._look)
            return
        if sign is None or sign <= self._since:
            self._give_up()
            return
        self.reset(sign)
        self._timer = self._loop.call_later(self._seconds, self._look)

    def _give_up(self) -> None:
        if self._waiting is not None:
            self.is_over = True
            self._waiting.cancel()


def last_sign_of_work(tx: Transaction, message: Message) -> datetime | None:
    """When the agent last said that it is working on the message, or on anything if it names nothing."""
    workspace = tx.workspaces.get(message.target_id)
    if workspace is None:
        return None
    turns = (workspace.runtime_metadata or {}).get("active_turns")
    if isinstance(turns, list):
        named = [turn.get("message_id") for turn in turns if isinstance(turn, dict)]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return workspace.last_heartbeat_at if message.id in named else None
    return workspace.last_heartbeat_at if workspace.active_tasks >= 1 else None
