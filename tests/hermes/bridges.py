"""The bridge as a server of the a2a-sdk would ask it, on either transport."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from molecule_runtime.runtimes.hermes.executor import HermesAgentProxyExecutor

HEAD = "you said:\n"


@dataclass
class Bridge:
    """An executor on one transport, asked as a server of the a2a-sdk asks it."""

    transport: str
    executor: HermesAgentProxyExecutor
    texts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """The texts of each conversation, oldest first."""

    async def outcome(self, conversation: str, text: str) -> Any:
        """The message that a text is answered with."""
        events = list[Any]()

        async def enqueue_event(event: Any) -> None:
            events.append(event)

        message = SimpleNamespace(parts=[SimpleNamespace(text=text)], metadata=None)
        context = SimpleNamespace(message=message, context_id=f"{self.transport}-{conversation}")
        await self.executor.execute(context, SimpleNamespace(enqueue_event=enqueue_event))
        assert len(events) == 1, "one outcome for each turn"
        return events[0]

    async def ask(self, conversation: str, text: str) -> str:
        """The text of the answer."""
        return text_of(await self.outcome(conversation, text))

    async def take_turn(self, conversation: str, text: str) -> bool:
        """Whether a turn is answered with what was said in its conversation, and with nothing else."""
        answer = await self.ask(conversation, text)
        self.texts.setdefault(conversation, []).append(text)
        expected = HEAD + "\n".join(self.texts[conversation])
        assert answer == expected, f"{answer!r} instead of {expected!r}"
        return True


def text_of(message: Any) -> str:
    """The text of a message."""
    return "".join(part.text for part in message.parts)
