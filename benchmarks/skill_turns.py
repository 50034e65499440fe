"""What a trivial skill costs the processor through `/invoke` and through A2A, an event, and a run that waits.

The baseline is a bare Starlette handler with the same pydantic models; the sides take turns in one run.
"""

import functools
import http.client
import json
import statistics
import tempfile
import time
from typing import NamedTuple

import psutil

from benchmarks import figure, load, processes

REQUESTS, ROUNDS, CONNECTIONS = 300, 15, 16
STREAMS, WORDS = 8, 400
WAITING, WATCHED_SECONDS = 1000, 10.0
INVOKE = {"memory": 3.5, "sqlite": 6.0}
A2A = {"memory": 5.0, "sqlite": 8.0}
MOST_MICROSECONDS, MOST_KILOBYTES, MOST_PERCENT = 100.0, 20.0, 1.0

_ARGUMENTS = {"person": {"name": "Ada", "age": 36}}


class _Costs(NamedTuple):
    bare: float
    invoke_memory: float
    invoke_sqlite: float
    a2a_memory: float
    a2a_sqlite: float
    event: float


def invoke_in_memory() -> figure.Figure:
    """`POST /invoke`, runs kept in memory."""
    return _ratio("skill /invoke, memory", "invoke_memory", INVOKE["memory"])


def invoke_durable() -> figure.Figure:
    """`POST /invoke`, runs kept in SQLite."""
    return _ratio("skill /invoke, SQLite", "invoke_sqlite", INVOKE["sqlite"])


def a2a_in_memory() -> figure.Figure:
    """A2A 1.0 JSON-RPC, runs kept in memory."""
    return _ratio("skill A2A, memory", "a2a_memory", A2A["memory"])


def a2a_durable() -> figure.Figure:
    """A2A 1.0 JSON-RPC, runs kept in SQLite."""
    return _ratio("skill A2A, SQLite", "a2a_sqlite", A2A["sqlite"])


def event() -> figure.Figure:
    """An event of a stream, in memory: whole streams, divided by the events that came."""
    cost = statistics.median(one.event for one in _rounds())
    limits = f"{ROUNDS} rounds, {STREAMS} streams of {WORDS} events"
    return figure.Figure("skill stream event", cost, "us", figure.Ceiling(MOST_MICROSECONDS), limits)


def waiting_memory() -> figure.Figure:
    """What a run holds that waits for a person."""
    kilobytes, _ = _waiting()
    line = figure.Ceiling(MOST_KILOBYTES)
    return figure.Figure("skill run waiting", kilobytes, "KB", line, f"{WAITING} runs, SQLite")


def waiting_processor() -> figure.Figure:
    """What all of them cost while nobody answers."""
    _, percent = _waiting()
    line = figure.Ceiling(MOST_PERCENT)
    limits = f"{WAITING} runs, {WATCHED_SECONDS:g} s, SQLite"
    return figure.Figure("skill runs waiting, processor", percent, "% of a core", line, limits)


def _ratio(name: str, side: str, ceiling: float) -> figure.Figure:
    """The median over the rounds, each of which asks both: what slows the machine for a while slows both."""
    rounds = _rounds()
    ratio = statistics.median(getattr(one, side) / one.bare for one in rounds)
    cost, bare = (statistics.median(getattr(one, name) for one in rounds) for name in (side, "bare"))
    limits = f"{ROUNDS} rounds, {CONNECTIONS} connections; CPU {cost:.0f} us against {bare:.0f} us"
    return figure.Figure(f"{name} / bare Starlette", ratio, "x", figure.Ceiling(ceiling), limits)


@functools.cache
def _rounds() -> list[_Costs]:
    body = json.dumps({"arguments": _ARGUMENTS}).encode()
    invoke = load.post("/invoke/greet", body)
    told = json.dumps({"arguments": {"words": WORDS}}).encode()
    stream = load.post("/invoke/tell", told, Accept="text/event-stream")
    part = {"data": {"skill": "greet", "arguments": _ARGUMENTS}}
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [part]}
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    send = load.post("/", json.dumps(rpc).encode(), A2A_Version="1.0")
    with (
        tempfile.TemporaryDirectory() as folder,
        processes.running("benchmarks.skill_server", "bare") as bare,
        processes.running("benchmarks.skill_server", "memory") as memory,
        processes.running("benchmarks.skill_server", "sqlite", folder) as sqlite,
    ):

        def one_round() -> _Costs:
            streams, events = _spent(memory, stream, STREAMS)
            return _Costs(
                _spent(bare, invoke, REQUESTS)[0],
                _spent(memory, invoke, REQUESTS)[0],
                _spent(sqlite, invoke, REQUESTS)[0],
                _spent(memory, send, REQUESTS)[0],
                _spent(sqlite, send, REQUESTS)[0],
                streams / events,
            )

        one_round()
        return [one_round() for _ in range(ROUNDS)]


def _spent(server: processes.Server, wire: bytes, requests: int) -> tuple[float, float]:
    """Microseconds of the server's processor for one request, and the frames in its answer."""
    before = processes.cpu_seconds(server.pid)
    done = load.run(server.port, lambda _: wire, requests, min(CONNECTIONS, requests))
    spent = processes.cpu_seconds(server.pid) - before
    return spent / requests * 1e6, done.frames / requests


@functools.cache
def _waiting() -> tuple[float, float]:
    with (
        tempfile.TemporaryDirectory() as folder,
        processes.running("benchmarks.skill_server", "sqlite", folder) as server,
    ):
        process = psutil.Process(server.pid)
        _wait_for_people(server, 50)
        time.sleep(1.0)
        before = process.memory_info().rss
        _wait_for_people(server, WAITING)
        time.sleep(3.0)
        kilobytes = (process.memory_info().rss - before) / WAITING / 1024
        spent = processes.cpu_seconds(server.pid)
        time.sleep(WATCHED_SECONDS)
        percent = (processes.cpu_seconds(server.pid) - spent) / WATCHED_SECONDS * 100
        return kilobytes, percent


def _wait_for_people(server: processes.Server, count: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    for _ in range(count):
        connection.request("POST", "/invoke/wait", b"{}", {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 202, answer.status
    connection.close()


if __name__ == "__main__":
    print(
        figure.table(
            [
                invoke_in_memory(),
                invoke_durable(),
                a2a_in_memory(),
                a2a_durable(),
                event(),
                waiting_memory(),
                waiting_processor(),
            ]
        )
    )
