"""Turns under a bare A2A server: what the bridge reads out of a request context, whatever made it."""

import asyncio
import logging
import uuid
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from molecule_runtime.domain.turns import Attachment, TurnRequest
from molecule_runtime.kit.files.attachments import attachments_of
from molecule_runtime.kit.turns.executor import Turn
from molecule_runtime.kit.turns.message_text import member
from molecule_runtime.runtimes.hermes import sessions

log = logging.getLogger(__name__)

Transport: TypeAlias = Literal["chat", "plugin"]


@dataclass(frozen=True)
class TurnOrigin:
    """Where a turn comes from: its conversation, and what was said there, in A2A form."""

    chat_id: str = ""
    context_id: str = ""
    task_id: str = ""
    history: list[Any] = field(default_factory=list[Any])
    attachments: list[Attachment] = field(default_factory=list[Attachment])
    as_task: bool = False
    """Whether the caller sees events; else it is told the answer alone."""
    transport: Transport | None = None
    """The transport that was asked for; None leaves it to the configuration."""


bare_origin: ContextVar[TurnOrigin | None] = ContextVar("hermes_bare_origin", default=None)
"""The origin of the request that is being executed: the transports have no parameter for it."""


async def origin_of_context(context: object) -> TurnOrigin:
    """The origin of a request to a bare server."""
    task = member(context, "current_task")
    return TurnOrigin(
        chat_id=sessions.chat_id_of(context),
        context_id=sessions.context_id_of(context),
        task_id=sessions.usable_id(member(context, "task_id")),
        history=sessions.history_of_context(context),
        attachments=await _files_of(member(context, "message")),
        as_task=bool(sessions.usable_id(member(task, "id"))),
    )


def origin_of_turn(turn: Turn) -> TurnOrigin:
    """The origin of a turn: of the request that is being executed, or of one that the workspace runs."""
    remembered: list[Any] = [vars(item) for item in turn.history]
    bare = bare_origin.get()
    if bare is not None:
        return replace(bare, history=bare.history or (remembered if bare.context_id else []))
    raw_history = turn.metadata.get("history")
    # The kit takes every role that it does not know for a person; the raw items say it.
    history = list(raw_history) if isinstance(raw_history, list) else remembered
    return TurnOrigin(turn.context_id, turn.context_id, turn.task_id, history, turn.attachments, as_task=True)


def request_of(origin: TurnOrigin, prompt: str) -> TurnRequest:
    """The request of a bare turn, for the kit."""
    return TurnRequest(
        message_id=uuid.uuid4().hex,
        task_id=origin.task_id or uuid.uuid4().hex,
        context_id=origin.context_id,
        parts=[{"text": prompt}],
        as_task=origin.as_task,
    )


async def bare_files(parts: list[Any]) -> list[Attachment]:
    """The files of the request that is being executed."""
    origin = bare_origin.get()
    return origin.attachments if origin is not None else []


async def _files_of(message: object) -> list[Attachment]:
    parts = member(message, "parts")
    if not isinstance(parts, Iterable) or isinstance(parts, str | bytes):
        return []
    listed: list[Any] = list(parts)  # pyright: ignore[reportUnknownArgumentType]
    try:
        return await asyncio.to_thread(attachments_of, listed)
    except OSError as problem:
        log.warning("the files of a message cannot be kept: %s", problem.strerror)
        return []
