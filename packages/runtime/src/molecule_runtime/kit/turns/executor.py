"""The executor of an adapter: `run_turn` is the engine, everything around it is the kit's."""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from molecule_runtime.domain.turns import Attachment, Caller, Delegation, HistoryItem, TurnResult
from molecule_runtime.kit.turns.sink import Sink
from molecule_wire import JSON, JSONObject

if TYPE_CHECKING:
    from molecule_runtime.kit.turns.runner import TurnRunner


@dataclass(eq=False)
class Turn:
    """One message for an engine. `deadline` is in seconds of the monotonic clock; `state` is the context's
    own dictionary, kept in the snapshot."""

    message_id: str
    task_id: str
    context_id: str
    text: str
    sink: Sink
    attempt: int = 1
    attachments: list[Attachment] = field(default_factory=list[Attachment])
    data_parts: list[JSON] = field(default_factory=list[JSON])
    history: list[HistoryItem] = field(default_factory=list[HistoryItem])
    metadata: JSONObject = field(default_factory=dict[str, JSON])
    caller: Caller | None = None
    delegation: Delegation | None = None
    traceparent: str = ""
    deadline: float | None = None
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    tools: Any = None
    system_prompt: str = ""
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    parts: list[JSON] = field(default_factory=list[JSON])
    """The message's 1.0 parts as they came."""
    continues: JSONObject | None = None
    """The task that the message goes on with, in 1.0."""


class TurnExecutor:
    """The base of an adapter's executor: implement `run_turn`.

    It has the `execute` and `cancel` of the a2a-sdk's executor, so that it also runs under that server.
    """

    turn_timeout: ClassVar[float | None] = None
    """Seconds that one turn may take."""
    idle_timeout: ClassVar[float | None] = None
    """Seconds that a turn may be silent; None for the adapter's override, else 300."""
    interrupt_grace: ClassVar[float] = 10.0
    """Seconds between the interruption of a turn and the end of its task."""
    serialize: ClassVar[bool] = True
    """Whether the engine takes one turn at a time."""
    replays_history: ClassVar[bool] = False
    """Whether the engine keeps the conversation itself."""

    def __init__(self, config: Any, *, adapter: Any = None, tools: Any = None) -> None:
        self.config = config
        self.adapter = adapter
        self.tools = tools
        self._session_id: str | None = None
        self._runner: TurnRunner | None = None

    async def run_turn(self, turn: Turn) -> TurnResult | str | None:
        """Do what the message asks; what is reported to `turn.sink` is streamed."""
        raise NotImplementedError

    async def interrupt(self, turn: Turn) -> None:
        """Make the engine stop working on a turn."""

    async def start(self) -> None:
        """Get ready; called once before the first turn."""

    async def stop(self) -> None:
        """Let go of everything; called once after the last turn."""

    async def execute(self, context: Any, event_queue: Any) -> None:
        """Run a turn for the request context and event queue of the a2a-sdk."""
        from molecule_runtime.kit.turns import a2a_sdk

        await a2a_sdk.execute(self._own_runner(), context, event_queue)

    async def cancel(self, context: Any, event_queue: Any) -> None:
        """Cancel the turn of a request context of the a2a-sdk."""
        from molecule_runtime.kit.turns import a2a_sdk

        await a2a_sdk.cancel(self._own_runner(), context, event_queue)

    def _own_runner(self) -> "TurnRunner":
        """The runner that the workspace gave to this executor, or one of its own under a bare server."""
        if self._runner is None:
            from molecule_runtime.kit.turns.runner import TurnRunner

            self._runner = TurnRunner(self)
        return self._runner
