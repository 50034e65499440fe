"""Pauses of the local context: questions and forms that a test or a terminal answers."""

import asyncio
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel

from molecule_skill import clocks, engine, interactions
from molecule_skill.errors import Declined, InteractionTimeout, ScopeExpansionNotAllowed
from molecule_skill.events import AgentEvent
from molecule_skill.interactions import Decline, Interaction

if TYPE_CHECKING:
    from molecule_skill.local_context import LocalRunContext

_NONE_LEFT = object()


class LocalPauses:
    """The interactions of one local context."""

    def __init__(self, ctx: "LocalRunContext[Any]", answers: Any) -> None:
        self._ctx = ctx
        self._answers = list(cast("list[Any]", answers)) if isinstance(answers, list | tuple) else answers
        self._pending: dict[str, tuple[Interaction, asyncio.Future[Any]]] = {}
        self._given_before: dict[str | int, tuple[str, Any]] = {}
        self._place = 0

    def begin(self, attempt: int) -> None:
        """The handler starts from its first line; what was answered in this run is not asked again."""
        self._place = 0
        if attempt == 1:
            self._given_before.clear()

    async def ask(self, prompt: str, timeout: float, key: str | None) -> str:
        """See `RunContext.ask`."""
        return await self._answered(interactions.question(prompt, timeout), key)

    async def collect(
        self,
        model_or_schema: Any,
        title: str,
        reason: str,
        ui_schema: dict[str, Any] | None,
        timeout: float,
        key: str | None,
    ) -> Any:
        """See `RunContext.collect`."""
        return await self._answered(
            interactions.form(model_or_schema, title, reason, ui_schema, timeout), key
        )

    def answer(self, id: str, value: Any) -> None:
        """See `LocalRunContext.answer`."""
        if id not in self._pending:
            raise KeyError(f"no question or form {id!r} waits for an answer")
        interaction, waiting = self._pending[id]
        answered = value if isinstance(value, Decline) else interaction.value_of(_json_of(value))
        if not waiting.done():
            waiting.set_result(answered)

    async def _answered(self, interaction: Interaction, key: str | None) -> Any:
        self._ctx._use_key(key)
        await self._ctx.check_cancelled()
        self._place += 1
        place = key or self._place
        mark, known = self._given_before.get(place, ("", None))
        if mark == interaction.fingerprint:
            return known
        answer = await self._decided(interaction, key)
        if isinstance(answer, Decline):
            raise Declined(answer.reason)
        self._given_before[place] = interaction.fingerprint, answer
        return answer

    async def _decided(self, interaction: Interaction, key: str | None) -> Any:
        """The answer, or a `Decline`. Raises `InteractionTimeout`."""
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[interaction.id] = interaction, waiting
        forget = self._ctx._on_cancel(lambda: _cancel(waiting))
        expires_at = clocks.CURRENT.get().time() + interaction.timeout
        event = AgentEvent(interaction.event_kind, dict(interaction.payload(expires_at)))
        state = "cancelled"
        try:
            await self._ctx.emit_event(event)
            answered = await self._given(event, interaction, key)
            if answered is not _NONE_LEFT and not waiting.done():
                self.answer(interaction.id, answered)
            if not waiting.done():
                async with engine.paused():
                    await clocks.wait(waiting, interaction.timeout)
            await self._ctx.check_cancelled()
            if not waiting.done():
                state = "expired"
                raise InteractionTimeout(
                    f"nobody answered within {interaction.timeout:g} seconds: {interaction.label}"
                )
            answer = waiting.result()
            state = "denied" if isinstance(answer, Decline) else "answered"
        finally:
            forget()
            del self._pending[interaction.id]
            by = self._ctx.caller if state in ("answered", "denied") else None
            closed = {"id": interaction.id, "state": state, "answered_by": by}
            await self._ctx.emit_event(AgentEvent("interaction_closed", closed))
        return answer

    async def _given(self, event: AgentEvent, interaction: Interaction, key: str | None) -> Any:
        """The answer given beforehand; a function that returns None leaves it to `answer`."""
        answers: Any = self._answers
        if isinstance(answers, Mapping):
            by_name = cast("Mapping[str, Any]", answers)
            return next((by_name[n] for n in (key or "", interaction.label) if n in by_name), _NONE_LEFT)
        if isinstance(answers, list):
            left = cast("list[Any]", answers)
            return left.pop(0) if left else _NONE_LEFT
        if callable(answers):
            answered = answers(event)
            answered = await answered if inspect.isawaitable(answered) else answered
            return _NONE_LEFT if answered is None else answered
        return _NONE_LEFT


def check_scope_request(spec: Any, reason: str) -> None:
    """Refuse a request for more access before anything is recorded."""
    if spec is not None and not spec.allow_scope_expansion:
        raise ScopeExpansionNotAllowed(
            f"skill {spec.name!r} may not ask for more access; declare @skill(allow_scope_expansion=True)"
        )
    if not reason.strip():
        raise ValueError("request_scope needs a reason that the person who decides can read")


def _cancel(waiting: "asyncio.Future[Any]") -> None:
    waiting.cancel()


def _json_of(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value
