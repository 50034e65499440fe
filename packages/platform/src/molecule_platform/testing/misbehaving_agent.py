"""An agent on a raw socket that misbehaves: one manner for each way in which a server can go wrong.

The manner of a send is the next one of `script`, else the first word of the message, else `polite`:

    with rude_agent.running("busy", "reset") as agent:   # the third time it is polite
        ...

usage: python -m molecule_platform.testing.misbehaving_agent PORT
"""

import asyncio
import contextlib
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from molecule_platform.testing import misbehaving_exchange
from molecule_platform.testing.misbehaving_exchange import Arrival, Exchange, RudeTask
from molecule_wire import JSON, JSONObject, ids, jsontext
from molecule_wire.a2a import envelopes, errors, operations, text
from molecule_wire.a2a.tasks import TaskState

START_SECONDS = 30.0
MAX_REMEMBERED = 10_000
TRICKLE_SECONDS = 0.2
HUGE_PIECE = b" " * (1024 * 1024)


class MisbehavingAgent:
    """See the module. `seen` holds the last requests; a late task is asked `later_looks` times in vain.

    A slow one answers once it `may_answer`; `left` counts the callers who did not wait for a silent one.
    """

    def __init__(self, *script: str) -> None:
        self.script: deque[str] = deque(script)
        self.seen: deque[Arrival] = deque(maxlen=MAX_REMEMBERED)
        self.later_looks = 1
        self.huge_bytes = 80 * 1024 * 1024
        self.may_answer = threading.Event()
        self.left = 0
        self.url = ""
        self._tasks: dict[str, RudeTask] = {}
        self._server: asyncio.Server | None = None

    async def open(self, port: int = 0) -> None:
        """Listen on loopback."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"

    def close(self) -> None:
        """Stop listening; whoever still waits is left to its connection's end."""
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            arrival = await misbehaving_exchange.read(reader)
            self.seen.append(arrival)
            await self._answer(Exchange(arrival, reader, writer))
        except (OSError, ValueError, asyncio.IncompleteReadError, errors.A2AError):
            return  # whoever called has gone, or is as rude as we are
        finally:
            writer.close()

    async def _answer(self, exchange: Exchange) -> None:
        request = exchange.request
        if request.operation in misbehaving_exchange.SENDS:
            await MANNERS[self._manner(exchange)](self, exchange)
            return
        task = self._tasks.get(request.task_id or "")
        if task is None:
            missing = errors.protocol_error(errors.TASK_NOT_FOUND, "Task not found")
            said = envelopes.error_envelope(request.id, missing, request.dialect)
            await exchange.reply(200, jsontext.encode(said))
        elif request.operation is operations.SUBSCRIBE:
            await self._resubscribed(exchange, task)
        else:
            await self._looked_at(exchange, task)

    def _manner(self, exchange: Exchange) -> str:
        if self.script:
            return self.script.popleft()
        words = text.text_of_message(exchange.request.message).split()
        return words[0] if words and words[0] in MANNERS else "polite"

    async def answering(self) -> None:
        """Wait until it may answer."""
        await asyncio.to_thread(self.may_answer.wait)

    def begin(self, exchange: Exchange) -> RudeTask:
        """A new task for a message."""
        words = text.text_of_message(exchange.request.message)
        context_id = exchange.request.context_id or ids.uuid7()
        task = RudeTask(ids.uuid7(), context_id, words, self.later_looks)
        self._tasks[task.id] = task
        return task

    async def _looked_at(self, exchange: Exchange, task: RudeTask) -> None:
        if exchange.request.operation is operations.CANCEL:
            task.ended = task.ended or TaskState.CANCELED
        task.look()
        await exchange.result(task.snapshot())

    async def _resubscribed(self, exchange: Exchange, task: RudeTask) -> None:
        """Whoever comes back to a cut stream is told the rest."""
        await exchange.begin_stream()
        await exchange.event(1, {"task": task.snapshot()})
        await exchange.event(2, task.artifact())
        task.ended = task.ended or TaskState.COMPLETED
        await exchange.event(3, task.update())
        await exchange.end_stream()


Manner: TypeAlias = Callable[[MisbehavingAgent, Exchange], Awaitable[None]]


async def _polite(agent: MisbehavingAgent, exchange: Exchange) -> None:
    words = text.text_of_message(exchange.request.message)
    context_id = exchange.request.context_id or ids.uuid7()
    reply: JSONObject = {"message": misbehaving_exchange.said(f"re: {words}", context_id)}
    if exchange.request.operation is operations.SEND:
        await exchange.result(reply)
        return
    await exchange.begin_stream()
    await exchange.event(1, reply)
    await exchange.end_stream()


async def _accepted(agent: MisbehavingAgent, exchange: Exchange) -> None:
    await exchange.reply(202, b"")


async def _accepted_task(agent: MisbehavingAgent, exchange: Exchange) -> None:
    await exchange.result({"task": agent.begin(exchange).snapshot()}, status=202)


async def _later(agent: MisbehavingAgent, exchange: Exchange) -> None:
    await exchange.result({"task": agent.begin(exchange).snapshot()})


async def _slow_task(agent: MisbehavingAgent, exchange: Exchange) -> None:
    """Nothing for long, and then a task that has only begun."""
    await agent.answering()
    await _later(agent, exchange)


async def _slow_end(agent: MisbehavingAgent, exchange: Exchange) -> None:
    """Nothing for long, and then a task that is over."""
    await agent.answering()
    task = agent.begin(exchange)
    task.ended = TaskState.COMPLETED
    await exchange.result({"task": task.snapshot()})


async def _slow_message(agent: MisbehavingAgent, exchange: Exchange) -> None:
    await agent.answering()
    await _polite(agent, exchange)


async def _too_many(agent: MisbehavingAgent, exchange: Exchange) -> None:
    await exchange.reply(429, b"{}", Retry_After="1")


async def _busy(agent: MisbehavingAgent, exchange: Exchange) -> None:
    await exchange.reply(503, b"{}", Retry_After="1")


async def _broken(agent: MisbehavingAgent, exchange: Exchange) -> None:
    await exchange.reply(500, b'{"error": "out of order"}')


async def _garbage(agent: MisbehavingAgent, exchange: Exchange) -> None:
    await exchange.reply(200, b'{"jsonrpc": "2.0", "result": {')


async def _html(agent: MisbehavingAgent, exchange: Exchange) -> None:
    await exchange.reply(200, b"<html><body>It works!</body></html>", Content_Type="text/html")


async def _redirect(agent: MisbehavingAgent, exchange: Exchange) -> None:
    await exchange.reply(302, b"", Location=f"{agent.url}elsewhere")


async def _half_frame(agent: MisbehavingAgent, exchange: Exchange) -> None:
    """A stream that ends in the middle of its second event; without a stream, half an answer."""
    task = agent.begin(exchange)
    if exchange.request.operation is operations.SEND:
        await exchange.reply(200, b'{"jsonrpc"', Content_Length="400")
        return
    await exchange.begin_stream()
    await exchange.event(1, {"task": task.snapshot()})
    await exchange.event(2, task.artifact(), cut_after=40)
    exchange.reset()


async def _cut(agent: MisbehavingAgent, exchange: Exchange) -> None:
    """A stream that ends between two events, politely framed but without its last state."""
    if exchange.request.operation is operations.SEND:
        await _half_frame(agent, exchange)
        return
    task = agent.begin(exchange)
    await exchange.begin_stream()
    await exchange.event(1, {"task": task.snapshot()})
    await exchange.end_stream()


async def _silent(agent: MisbehavingAgent, exchange: Exchange) -> None:
    await exchange.hung_up()
    agent.left += 1


async def _reset(agent: MisbehavingAgent, exchange: Exchange) -> None:
    exchange.reset()


async def _huge(agent: MisbehavingAgent, exchange: Exchange) -> None:
    """Well-formed JSON of `huge_bytes`, most of it blanks."""
    end = jsontext.encode(envelopes.result_envelope(exchange.request.id, "at last"))
    pieces = agent.huge_bytes // len(HUGE_PIECE)
    length = pieces * len(HUGE_PIECE) + len(end)
    await exchange.reply(200, b"", Content_Length=str(length))
    for _ in range(pieces):
        await exchange.write(HUGE_PIECE)
    await exchange.write(end)


async def _flood(agent: MisbehavingAgent, exchange: Exchange) -> None:
    """A stream of `huge_bytes`, in events of a mebibyte, that ends well for whoever hears it out."""
    task = agent.begin(exchange)
    await exchange.begin_stream()
    await exchange.event(1, {"task": task.snapshot()})
    piece = task.artifact("x" * len(HUGE_PIECE))
    count = agent.huge_bytes // len(HUGE_PIECE)
    for number in range(count):
        await exchange.event(number + 2, piece)
    task.ended = TaskState.COMPLETED
    await exchange.event(count + 2, task.update())
    await exchange.end_stream()


async def _many_values(agent: MisbehavingAgent, exchange: Exchange) -> None:
    """An answer of far more values than anybody reads."""
    many: list[JSON] = [0] * 200_000
    metadata: JSONObject = {"many": many}
    await exchange.result({"message": {**misbehaving_exchange.said("many", "c"), "metadata": metadata}})


async def _trickle(agent: MisbehavingAgent, exchange: Exchange) -> None:
    """A blank now and then, and never the answer."""
    await exchange.reply(200, b"", Content_Length="1000000")
    while True:
        await exchange.write(b" ")
        await asyncio.sleep(TRICKLE_SECONDS)


MANNERS: Mapping[str, Manner] = MappingProxyType(
    {
        "polite": _polite,
        "accepted": _accepted,
        "accepted-task": _accepted_task,
        "later": _later,
        "slow-task": _slow_task,
        "slow-end": _slow_end,
        "slow-message": _slow_message,
        "too-many": _too_many,
        "busy": _busy,
        "broken": _broken,
        "garbage": _garbage,
        "html": _html,
        "redirect": _redirect,
        "half-frame": _half_frame,
        "cut": _cut,
        "silent": _silent,
        "reset": _reset,
        "huge": _huge,
        "flood": _flood,
        "many-values": _many_values,
        "trickle": _trickle,
    }
)


@contextlib.contextmanager
def running(*script: str) -> Generator[MisbehavingAgent]:
    """A rude agent on a thread of its own, on any free port of loopback."""
    agent = MisbehavingAgent(*script)
    listening = threading.Event()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=_run, args=(loop, agent, listening), daemon=True)
    thread.start()
    if not listening.wait(START_SECONDS):
        raise TimeoutError("the rude agent did not start")
    try:
        yield agent
    finally:
        agent.may_answer.set()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(START_SECONDS)


def _run(loop: asyncio.AbstractEventLoop, agent: MisbehavingAgent, listening: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    loop.run_until_complete(agent.open())
    listening.set()
    loop.run_forever()
    agent.close()
    _let_go(loop)
    loop.close()


def _let_go(loop: asyncio.AbstractEventLoop) -> None:
    """End the conversations that were never to end."""
    open_ones = asyncio.all_tasks(loop)
    for conversation in open_ones:
        conversation.cancel()
    loop.run_until_complete(asyncio.gather(*open_ones, return_exceptions=True))


async def _serve_for_ever(port: int) -> None:
    agent = MisbehavingAgent()
    await agent.open(port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve_for_ever(int(sys.argv[1])))
