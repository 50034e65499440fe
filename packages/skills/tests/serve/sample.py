"""The sample agent of the serving tests: one skill for each thing that a served run can do."""

import asyncio
from typing import Any

from pydantic import BaseModel

from molecule_skill.agent import A2AAgent
from molecule_skill.context import RunContext
from molecule_skill.decorator import skill


class Person(BaseModel):
    name: str
    age: int


class Sample(A2AAgent[Any, Any]):
    name = "sample"
    description = "Does a bit of everything."
    version = "1.2.3"
    concurrency = 32
    default_skill = "shout"
    calls: list[str] = []

    @skill(tags=("text",))
    async def shout(self, ctx: RunContext[Any], text: str) -> str:
        """Say it louder."""
        self.calls.append("shout")
        return text.upper()

    @skill()
    async def add(self, ctx: RunContext[Any], a: int, b: int = 1) -> dict[str, int]:
        """Add two numbers."""
        await ctx.emit_progress("adding")
        return {"sum": a + b}

    @skill(stream=True)
    async def tell(self, ctx: RunContext[Any], words: int) -> int:
        """Tell a story, word by word, with an event of its own in the middle."""
        for number in range(words):
            await ctx.emit_text_delta(f"w{number} ")
        from molecule_skill.events import AgentEvent

        await ctx.emit_event(AgentEvent("chapter", {"number": 1}))
        return words

    @skill()
    async def write(self, ctx: RunContext[Any], name: str, size: int) -> int:
        """Write a file."""
        ref = await ctx.write_artifact(name, b"0123456789" * size, "text/plain")
        await ctx.emit_artifact(ref)
        return ref.size_bytes

    @skill()
    async def ask(self, ctx: RunContext[Any], question: str) -> str:
        """Ask a person."""
        self.calls.append("ask")
        return "answer: " + await ctx.ask(question, timeout=60)

    @skill()
    async def form(self, ctx: RunContext[Any]) -> str:
        """Let a person fill in a form."""
        person = await ctx.collect(Person, title="Who are you?", reason="to greet you")
        return f"{person.name} {person.age}"

    @skill()
    async def twice(self, ctx: RunContext[Any]) -> str:
        """Ask two questions."""
        first = await ctx.ask("first?")
        await ctx.emit_progress("half")
        return first + await ctx.ask("second?")

    @skill()
    async def fail(self, ctx: RunContext[Any], message: str) -> str:
        """Raise."""
        raise LookupError(message)

    @skill()
    async def wait(self, ctx: RunContext[Any], seconds: float = 60.0) -> str:
        """Wait until it is cancelled."""
        self.calls.append("wait")
        await ctx.emit_progress("waiting")
        for _ in range(int(seconds * 100)):
            await ctx.check_cancelled()
            await asyncio.sleep(0.01)
        return "waited"

    @skill()
    async def wrong(self, ctx: RunContext[Any]) -> int:
        """Return what the annotation does not allow."""
        return "three"  # type: ignore[return-value]

    @skill(scopes=("secret.read",))
    async def guarded(self, ctx: RunContext[Any]) -> str:
        """Needs a scope."""
        return "let in"

    @skill()
    async def nothing(self, ctx: RunContext[Any]) -> None:
        """Return nothing."""
