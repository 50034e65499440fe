"""Approvals that hermes asks for. Nobody can give one yet: they are denied, and the transcript says so.

The plugin denies one at once and reports it. The chat API holds the command back and tells nobody, so the
messages of the session are looked at after a turn that used tools.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from molecule_runtime.kit.turns.executor import Turn
from molecule_runtime.kit.turns.runner import TurnRunner
from molecule_runtime.runtimes.hermes import chat
from molecule_runtime.runtimes.hermes.client import as_object

DENIED = "denied: nobody can approve what hermes asks for in this workspace yet"
READ_SECONDS = 5.0


def report_progress(turn: Turn, runner: TurnRunner | None, text: str, metadata: Mapping[str, Any]) -> None:
    """Pass on what the plugin says before its answer; an approval that it denied is also recorded."""
    if metadata.get("approval") == "denied":
        _record(turn, runner, text)
    else:
        turn.sink.status(text)


async def report_held_back(
    turn: Turn, runner: TurnRunner | None, base: str, headers: Mapping[str, str], session_id: str
) -> None:
    """Record the commands of a chat turn that hermes holds back for an approval that will not come."""
    if session_id and turn.sink.reports.tools:
        messages = await chat.session_messages(base, headers, session_id, READ_SECONDS)
        for command in held_back(messages or []):
            _record(turn, runner, command)


def held_back(messages: Sequence[Any]) -> list[str]:
    """The commands of the last turn in a session that wait for an approval."""
    found = list[str]()
    for message in map(as_object, messages):
        if message.get("role") == "user":
            found.clear()
        elif message.get("role") == "tool":
            result = dict[str, Any]()
            with suppress(ValueError, TypeError, RecursionError):
                result = as_object(json.loads(message.get("content") or ""))
            if result.get("approval_pending") is True:
                found.append(str(result.get("command") or "a command"))
    return found


def _record(turn: Turn, runner: TurnRunner | None, command: str) -> None:
    """Write the request and its denial into the transcript, and tell whoever follows the turn."""
    note = f"hermes asks for an approval: {command}"
    turn.sink.status(f"{note} ({DENIED})")
    if runner is not None:
        runner.services.record(
            turn.context_id, {"role": "system", "text": note}, {"role": "system", "text": DENIED}
        )
