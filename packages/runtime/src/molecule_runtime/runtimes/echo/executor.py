"""The engine of `echo`: it answers with the text, or does what a directive says."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from molecule_runtime.domain.turns import TurnError, TurnResult
from molecule_runtime.kit.turns.executor import Turn, TurnExecutor

MAX_SECONDS, MAX_PIECES = 86_400.0, 10_000


class EchoExecutor(TurnExecutor):
    """`/sleep n`, `/fail [code]`, `/stream n`, `/tool name json`, `/crash` and `/input`; else an echo.

    `/stream n text` streams n pieces; `/sleep n` answers after n seconds unless it is interrupted.
    """

    serialize = False

    async def run_turn(self, turn: Turn) -> TurnResult | str:
        """Answer one message."""
        directive, _, rest = turn.text.partition(" ")
        act = _DIRECTIVES.get(directive)
        return f"echo: {turn.text}" if act is None else await act(turn, rest.strip())


async def _sleep(turn: Turn, rest: str) -> str:
    seconds = min(max(_number(rest), 0.0), MAX_SECONDS)
    try:
        async with asyncio.timeout(seconds):
            await turn.cancelled.wait()
    except TimeoutError:
        return f"echo: slept {seconds:g} s"
    return "echo: woken"


async def _fail(turn: Turn, rest: str) -> str:
    if not rest:
        raise RuntimeError("echo was asked to fail")
    raise TurnError(rest, f"echo failed: {rest}")


async def _stream(turn: Turn, rest: str) -> str:
    count = int(min(max(_number(rest.partition(" ")[0]), 0.0), MAX_PIECES))
    pieces = [f"{number} " for number in range(1, count + 1)]
    for piece in pieces:
        await turn.sink.text(piece)
    return "".join(pieces).strip()


async def _tool(turn: Turn, rest: str) -> str:
    name, _, argument = rest.partition(" ")
    arguments: dict[str, Any] = json.loads(argument) if argument else {}
    call_id = turn.sink.tool_start(name, arguments)
    result = {"error": f"unknown tool: {name}"}
    if turn.tools is not None:
        result = await turn.tools.call(name, arguments)
    turn.sink.tool_end(call_id, result)
    return f"echo: {name} answered {json.dumps(result, sort_keys=True)}"


async def _crash(turn: Turn, rest: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


async def _input(turn: Turn, rest: str) -> TurnResult:
    return TurnResult(rest or "echo: what else?", state="input-required")


_DIRECTIVES: dict[str, Callable[[Turn, str], Awaitable[TurnResult | str]]] = {
    "/sleep": _sleep,
    "/fail": _fail,
    "/stream": _stream,
    "/tool": _tool,
    "/crash": _crash,
    "/input": _input,
}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
