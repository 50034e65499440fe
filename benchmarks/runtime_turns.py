"""What a turn and a streamed event cost the processor of a workspace runtime with the engine `echo`.

It is asked as the platform asks a push agent: each message with an assertion of its own about the caller,
signed by the platform, and with the dispatch secret. Each turn is in the task store and in the transcript.
"""

import functools
import statistics
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from benchmarks import echo_workspace, figure, gateway, load, processes, pushing_platform
from molecule_runtime.links.callers import verify_ed25519
from molecule_runtime.links.task_store import TaskStore
from molecule_wire import JSONObject, assertions, ids
from molecule_wire.a2a.server.records import TurnRecord

# As many as a busy workspace has between two heartbeats that tell of an edge.
TURNS, BEGINNINGS, STREAMS, PIECES = 1000, 200, 16, 200
CONVERSATIONS = 64
PARTS = 200
ROUNDS = 31
SETTLE_SECONDS, DEFERRED_SECONDS = 0.5, 0.3
START_SECONDS = 20.0
AGAINST_BARE, MOST_MICROSECONDS = 6.0, 150.0


class _Costs(NamedTuple):
    ratio: float
    """A turn against a bare echo of the same round: what slows the machine for a while slows both."""
    turn: float
    beginning: float
    """A turn that begins a conversation."""
    bare: float
    event: float
    events_each: float
    signature: float
    record: float


def unary() -> figure.Figure:
    """A turn, against a bare Starlette server that says the same body back."""
    cost = _costs()
    limits = (
        f"{ROUNDS} turns, {gateway.CONNECTIONS} connections, {CONVERSATIONS} conversations; CPU "
        f"{cost.turn:.0f} us against {cost.bare:.0f} us, of it signature {cost.signature:.0f}, task on disk "
        f"{cost.record:.0f}; {cost.beginning:.0f} us where it begins a conversation"
    )
    line = figure.Ceiling(AGAINST_BARE)
    return figure.Figure("runtime turn / bare Starlette echo", cost.ratio, "x", line, limits)


def event() -> figure.Figure:
    """An event of `/stream`: whole streams, divided by the events that came."""
    cost = _costs()
    limits = (
        f"{ROUNDS} turns, {STREAMS} connections, {PIECES} pieces became {cost.events_each:.0f} "
        f"events; a bare echo costs {cost.bare:.0f} us"
    )
    line = figure.Ceiling(MOST_MICROSECONDS)
    return figure.Figure("runtime stream event", cost.event, "us", line, limits)


@functools.cache
def _costs() -> _Costs:
    """The median of each, in microseconds; the sides take turns."""
    with (
        tempfile.TemporaryDirectory() as folder,
        _workspace() as (platform, pid),
        processes.running("benchmarks.bare_echo") as bare,
    ):
        url: str = platform.agent["url"]
        ours = processes.Server(urlsplit(url).port or 0, pid)
        talking = platform.request("hi", "SendMessage", url, CONVERSATIONS)
        beginning = platform.request("hi", "SendMessage", url, 0)
        echoed = platform.request("hi", "SendMessage", f"http://127.0.0.1:{bare.port}/echo", CONVERSATIONS)
        streamed = platform.request(f"/stream {PIECES}", "SendStreamingMessage", url, CONVERSATIONS)

        def one_round() -> _Costs:
            turn, _ = _spent(ours, [talking(number) for number in range(TURNS)])
            plain, _ = _spent(bare, [echoed(number) for number in range(TURNS)])
            begun, _ = _spent(ours, [beginning(number) for number in range(BEGINNINGS)])
            stream, events = _spent(ours, [streamed(number) for number in range(STREAMS)])
            parts = (_signature(platform, talking), _record(Path(folder)))
            return _Costs(turn / plain, turn, begun, plain, stream / events, events, *parts)

        one_round()
        rounds = [one_round() for _ in range(ROUNDS)]
        return _Costs(*(statistics.median(values) for values in zip(*rounds, strict=True)))


@contextmanager
def _workspace() -> Generator[tuple[pushing_platform.PushingPlatform, int]]:
    with tempfile.TemporaryDirectory() as folder, pushing_platform.running() as platform:
        place = Path(folder) / "workspace"
        secured = {"MOLECULE_REQUIRE_CALLER": "always"}
        with echo_workspace.running(
            place, platform.url, platform.workspace_id, "t" * 43, **secured
        ) as process:
            platform.wait(START_SECONDS)
            time.sleep(SETTLE_SECONDS)
            yield platform, process.pid


def _spent(server: processes.Server, wire: list[bytes]) -> tuple[float, float]:
    """Microseconds of the server's processor for one request, and the events in its answer.

    What it puts off, lines of transcripts, belongs to these requests and not to the next ones.
    """
    before = processes.cpu_seconds(server.pid)
    connections = min(gateway.CONNECTIONS, len(wire))
    done = load.run(server.port, wire.__getitem__, len(wire), connections)
    time.sleep(DEFERRED_SECONDS)
    spent = processes.cpu_seconds(server.pid) - before
    return spent / len(wire) * 1e6, done.frames / len(wire)


def _signature(platform: pushing_platform.PushingPlatform, request: Callable[[int], bytes]) -> float:
    """What the check of one signature costs, by the clock of this process."""
    heads = [request(number).split(b"X-Molecule-Caller: ", 1)[1] for number in range(PARTS)]
    parsed = [assertions.parse(head.split(b"\r\n", 1)[0].decode()) for head in heads]
    before = time.process_time()
    for one in parsed:
        assert verify_ed25519(platform.public_key, one.signature, one.said)
    return (time.process_time() - before) / PARTS * 1e6


def _record(folder: Path) -> float:
    """What it costs to keep one task on disk, by the clock of this process; eight share a commit."""
    store = TaskStore(folder / f"{time.monotonic_ns()}.db")
    records = [_turn_record() for _ in range(PARTS)]
    before = time.process_time()
    for number, record in enumerate(records, start=1):
        store.save(record)
        if number % 8 == 0:
            store.commit()
    spent = time.process_time() - before
    store.close()
    return spent / PARTS * 1e6


def _turn_record() -> TurnRecord:
    task_id, context_id, caller = ids.uuid7(), ids.uuid7(), f"workspace:{ids.uuid7()}"
    said: JSONObject = {"messageId": task_id, "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    status: JSONObject = {"state": "TASK_STATE_WORKING", "timestamp": "2026-01-31T10:15:30.123Z"}
    whole: JSONObject = {"id": task_id, "contextId": context_id, "status": status, "history": [said]}
    key = ("row", caller, task_id)
    return TurnRecord(task_id, context_id, caller, "", key, "", 1, 1, whole, said, datetime.now(UTC))


if __name__ == "__main__":
    print(figure.table([unary(), event()]))
