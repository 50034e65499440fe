"""An adapter as it was written for the original: its base class, and a bare executor of the a2a-sdk.

It answers with its session and whether that was restored; `hold`, and `wait` in a new session, only when it
is cancelled. A cancel leaves a line in the file `CANCELLED`.
"""

import asyncio
import os
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue

from molecule_runtime.adapters.base import AdapterConfig, BaseAdapter
from molecule_runtime.executor_helpers import extract_message_text, new_response_message


class OriginalExecutor(AgentExecutor):
    """Keeps one session."""

    def __init__(self, session: str | None) -> None:
        self._session_id = session or "s-1"
        self._restored = session
        self._cancelled = asyncio.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer one message."""
        text = extract_message_text(context.message)
        if text == "hold" or (text == "wait" and self._restored is None):
            self._cancelled.clear()
            await self._cancelled.wait()
        said = f"{text} in {self._session_id}, restored {self._restored}"
        await event_queue.enqueue_event(new_response_message(context, said))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Let the message go that waits."""
        with open(os.environ["CANCELLED"], "a") as file:  # noqa: ASYNC230
            file.write(f"{context.task_id}\n")
        self._cancelled.set()


class OriginalAdapter(BaseAdapter):
    """See the module."""

    @staticmethod
    def name() -> str:
        """The runtime id."""
        return "original"

    @staticmethod
    def display_name() -> str:
        """The name for people."""
        return "Original"

    @staticmethod
    def description() -> str:
        """One line."""
        return "An adapter for the original base."

    async def setup(self, config: AdapterConfig) -> None:
        """Nothing is needed."""

    async def create_executor(self, config: AdapterConfig) -> Any:
        """The executor; a snapshot was given to the adapter before this."""
        return OriginalExecutor(self._snapshot_session_id)


Adapter = OriginalAdapter
