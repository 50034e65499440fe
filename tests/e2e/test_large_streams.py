"""Large streams: a byte costs the same at every place, and kills of the platform lose and repeat nothing."""

import http.server
import json
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from molecule_wire.a2a import convert, tasks
from molecule_wire.a2a.operations import Dialect
from molecule_wire.sse_decoder import EVENT_MAX_BYTES, SSEDecoder
from tests.e2e import measured_platform
from tests.e2e.platform_process import PlatformProcess

pytestmark = pytest.mark.long

SECONDS = 120.0
MEBIBYTE = 1024 * 1024
PACKET_BYTES = 1400
LAG_SECONDS = 0.1
TIMES_LINEAR = 2.0
# Two measurements of the same work differ by this much: the clock of a process ticks each 10 ms.
NOISE_SECONDS = 0.1

Body = dict[str, Any]
Script = Callable[["StreamingAgent"], Iterator[Body]]


class StreamingAgent:
    """An agent of one version that makes a task once, and streams it to every subscriber from memory."""

    def __init__(self, dialect: Dialect, script: Script) -> None:
        self.dialect: Dialect = dialect
        self.events: list[Body] = []
        self._grown = threading.Condition()
        self._script = script
        self._started = False
        self.piece_bytes: int | None = None
        agent = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                agent.serve(self, body)

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def card(self) -> Body:
        interface = {"url": self.url, "protocolBinding": "JSONRPC", "protocolVersion": self.dialect}
        old = {"protocolVersion": "0.3.0", "url": self.url, "preferredTransport": "JSONRPC"}
        shown = old if self.dialect == "0.3" else {"supportedInterfaces": [interface]}
        return {"name": "streaming", "capabilities": {"streaming": True}, **shown}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/"

    @property
    def whole(self) -> Body:
        """The task as its events make it."""
        folded: Any = None
        for event in self.events:
            folded = tasks.fold(folded, event)
        return folded

    def update(self, text: str, artifact: str = "out", *, append: bool = True) -> Body:
        parts = {"artifactId": artifact, "parts": [{"text": text}]}
        return {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": parts, "append": append}}

    def status(self, state: str) -> Body:
        shown = {"state": f"TASK_STATE_{state}", "timestamp": "2026-01-01T00:00:00Z"}
        return {"statusUpdate": {"taskId": "t", "contextId": "c", "status": shown}}

    def serve(self, handler: http.server.BaseHTTPRequestHandler, body: Body) -> None:
        method, rpc_id = body["method"], body["id"]
        if method in ("GetTask", "tasks/get"):
            with self._grown:
                result: Body = {"task": self.whole}
            shown = result["task"] if self.dialect == "1.0" else convert.TO_0_3.event(result)
            return self._answer(handler, {"jsonrpc": "2.0", "id": rpc_id, "result": shown})
        after = 0
        with self._grown:
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, daemon=True).start()
            elif method in ("SubscribeToTask", "tasks/resubscribe"):
                after = len(self.events)
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        handler.close_connection = True
        try:
            self._stream(handler, rpc_id, after)
        except OSError:
            return None
        return None

    def _stream(self, handler: http.server.BaseHTTPRequestHandler, rpc_id: Any, after: int) -> None:
        if after and self.dialect == "1.0":
            with self._grown:
                after, first = len(self.events), {"task": self.whole}
            self._write(handler, rpc_id, first)
        while True:
            with self._grown:
                self._grown.wait_for(lambda seen=after: len(self.events) > seen, SECONDS)
                new = self.events[after:]
            for event in new:
                self._write(handler, rpc_id, event)
                if event.get("statusUpdate", {}).get("status", {}).get("state") == "TASK_STATE_COMPLETED":
                    return
            after += len(new)

    def _write(self, handler: http.server.BaseHTTPRequestHandler, rpc_id: Any, event: Body) -> None:
        spoken = event if self.dialect == "1.0" else convert.TO_0_3.event(event)
        frame = b"data: " + json.dumps({"jsonrpc": "2.0", "id": rpc_id, "result": spoken}).encode() + b"\n\n"
        size = self.piece_bytes or len(frame)
        for start in range(0, len(frame), size):
            handler.wfile.write(frame[start : start + size])

    def _answer(self, handler: http.server.BaseHTTPRequestHandler, body: Body) -> None:
        text = json.dumps(body).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    def _run(self) -> None:
        begun = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_SUBMITTED"}}
        for event in [{"task": begun}, *self._script(self), self.status("COMPLETED")]:
            with self._grown:
                self.events.append(event)
                self._grown.notify_all()


@contextmanager
def joined(
    process: PlatformProcess, dialect: Dialect, script: Script
) -> Generator[tuple[StreamingAgent, str]]:
    agent = StreamingAgent(dialect, script)
    made = process.ok("POST", "/workspaces", json={"name": "streaming", "external": True})
    body = {"id": made["id"], "url": agent.url, "agent_card": agent.card}
    process.ok("POST", "/registry/register", made["connection"]["auth_token"], json=body)
    try:
        yield agent, made["id"]
    finally:
        agent.server.shutdown()
        agent.server.server_close()


def ask(process: PlatformProcess, workspace_id: str) -> str:
    """Send a message that the agent answers with its stream; the id of the message."""
    said = {"role": "user", "messageId": "m", "parts": [{"kind": "text", "text": "go"}]}
    body = {"jsonrpc": "2.0", "id": "1", "method": "message/stream", "params": {"message": said}}
    path = f"/workspaces/{workspace_id}/a2a"
    return process.ok("POST", path, json=body, headers={"Prefer": "respond-async"})["message_id"]


def follow(process: PlatformProcess, message_id: str, after: int) -> Iterator[tuple[int, Body]]:
    """Yield the numbered events of a message, until its stream ends or is cut."""
    headers = {"Authorization": f"Bearer {process.admin_token()}"}
    headers |= {"Last-Event-ID": str(after)} if after else {}
    url, decoder = f"{process.url}/messages/{message_id}/events", SSEDecoder()
    with requests.get(url, headers=headers, stream=True, timeout=SECONDS) as answer:
        for piece in answer.iter_content(None):
            for event in decoder.feed(piece):
                if event.type in ("task", "status", "artifact"):
                    yield int(event.id), json.loads(event.data)


def stream(process: PlatformProcess, workspace_id: str) -> Iterator[int]:
    """Send a message and yield the numbers of the events that the agent answers with."""
    said = {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "go"}]}
    body = {"jsonrpc": "2.0", "id": "1", "method": "SendStreamingMessage", "params": {"message": said}}
    headers = {"Authorization": f"Bearer {process.admin_token()}", "A2A-Version": "1.0"}
    url, decoder = f"{process.url}/agents/{workspace_id}/", SSEDecoder()
    last = b""
    with requests.post(url, json=body, headers=headers, stream=True, timeout=SECONDS) as answer:
        for piece in answer.iter_content(None):
            for event in decoder.feed(piece):
                last = event.data
                yield int(event.id)
    assert b"TASK_STATE_COMPLETED" in last, last[:1000]


def row_of(process: PlatformProcess, message_id: str) -> Body:
    until = time.monotonic() + SECONDS
    while (row := process.ok("GET", f"/messages/{message_id}?wait=20"))["status"] in ("accepted", "leased"):
        assert time.monotonic() < until, row
    return row


# What a byte costs


@pytest.fixture
def measured(process: PlatformProcess, tmp_path: Path) -> PlatformProcess:
    process.preamble = "from tests.e2e import measured_platform; measured_platform.install()"
    process.environment[measured_platform.LAG_FILE] = str(tmp_path / "lag")
    process.environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    process.start()
    return process


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def check_lag(process: PlatformProcess, since: float, until: float) -> None:
    lag_file = Path(process.environment[measured_platform.LAG_FILE])
    ticks = [line.split() for line in lag_file.read_text().splitlines()]
    late = sorted(float(tick[1]) for tick in ticks if len(tick) == 2 and since <= float(tick[0]) <= until)
    within = late[int(len(late) * 0.99)]
    print(
        f"lag of {len(late)} ticks: 99 % within {within * 1000:.0f} ms, all within {late[-1] * 1000:.0f} ms"
    )
    assert within < LAG_SECONDS


def halves(process: PlatformProcess, workspace_id: str, events: int) -> tuple[float, float]:
    """Follow a stream; the processor time of the platform until the middle of its events, and from there."""
    since, began = time.time(), processor_seconds(process.pid)
    middle = ended = began
    for number in stream(process, workspace_id):
        if number == events // 2:
            middle = processor_seconds(process.pid)
        if number == events - 1:
            ended = processor_seconds(process.pid)
    check_lag(process, since, time.time())
    print(f"processor: {middle - began:.2f} s, then {ended - middle:.2f} s")
    return middle - began, ended - middle


LONG_ON_POSTGRES = [
    "sqlite",
    pytest.param("postgres", marks=pytest.mark.long),
]


@pytest.mark.slow  # 60 MB in packets
@pytest.mark.parametrize("process", LONG_ON_POSTGRES, indirect=True)
def test_events_without_a_line_end_up_to_the_limit_cost_the_same_per_byte(measured: PlatformProcess) -> None:
    def script(agent: StreamingAgent) -> Iterator[Body]:
        for number in range(4):
            yield agent.update("x" * (EVENT_MAX_BYTES - 2 * MEBIBYTE), append=number > 0)

    with joined(measured, "1.0", script) as (agent, workspace_id):
        agent.piece_bytes = PACKET_BYTES
        first, second = halves(measured, workspace_id, 6)
    assert second <= TIMES_LINEAR * first + NOISE_SECONDS


@pytest.mark.slow  # 20 MB in 400 chunks
@pytest.mark.parametrize("process", LONG_ON_POSTGRES, indirect=True)
def test_the_second_half_of_a_stream_of_chunks_costs_what_the_first_does(measured: PlatformProcess) -> None:
    def script(agent: StreamingAgent) -> Iterator[Body]:
        for number in range(400):
            yield agent.update("x" * 50_000, append=number > 0)

    with joined(measured, "1.0", script) as (_agent, workspace_id):
        first, second = halves(measured, workspace_id, 402)
    assert second <= TIMES_LINEAR * first + NOISE_SECONDS


@pytest.mark.slow  # 45 MB first
@pytest.mark.parametrize("process", LONG_ON_POSTGRES, indirect=True)
def test_a_byte_that_is_appended_after_45_mb_costs_what_the_first_byte_does(
    measured: PlatformProcess,
) -> None:
    made = measured.ok("POST", "/workspaces", json={"name": "polling", "external": True})
    token = made["connection"]["auth_token"]
    measured.ok("POST", "/registry/register", token, json={"id": made["id"], "agent_card": {"name": "p"}})
    ask(measured, made["id"])
    inbox, session = f"/workspaces/{made['id']}/inbox", requests.Session()
    [item] = measured.ok("POST", f"{inbox}/lease", token, json={"lease": 600})["messages"]

    def report(text: str, append: bool = True) -> None:
        artifact = {"artifactId": "out", "parts": [{"text": text}], "append": append}
        body = {"lease_token": item["lease"]["token"], "artifact": artifact}
        url = f"{measured.url}{inbox}/{item['message_id']}/progress"
        answer = session.post(url, json=body, headers={"Authorization": f"Bearer {token}"}, timeout=SECONDS)
        assert answer.status_code == 200, answer.text

    def round_cost() -> float:
        began = processor_seconds(measured.pid)
        for _ in range(100):
            report("x")
        return processor_seconds(measured.pid) - began

    def bytes_cost() -> float:
        return min(round_cost() for _ in range(4))

    report("begin", append=False)
    bytes_cost()
    since = time.time()
    first = bytes_cost()
    for _ in range(45):
        report("x" * MEBIBYTE)
    second = bytes_cost()
    print(f"processor of 100 bytes: {first:.2f} s, after 45 MB {second:.2f} s")
    check_lag(measured, since, time.time())
    assert second <= TIMES_LINEAR * first + NOISE_SECONDS


# What a kill loses


def chunks(chance: random.Random, count: int, size: int) -> Script:
    def script(agent: StreamingAgent) -> Iterator[Body]:
        for number in range(count):
            time.sleep(0.01)
            name = f"artifact {number % 3}"
            yield agent.update(f"{number}:" + "x" * chance.randrange(size), name, append=number >= 3)

    return script


def stream_through_kills(
    process: PlatformProcess, dialect: Dialect, kills: int, seed: int, size: int
) -> None:
    """Kill the platform at random places of a stream; its reader and a replay get what the agent sent."""
    chance = random.Random(seed)
    process.start()
    events: dict[int, Body] = {}
    with joined(process, dialect, chunks(chance, 60, size)) as (agent, workspace_id):
        message_id = ask(process, workspace_id)
        # What comes while the platform is away is one event of its log, so there are fewer than chunks.
        places = sorted(chance.sample(range(2, 30), kills))
        until = time.monotonic() + SECONDS
        while not _is_over(events):
            assert time.monotonic() < until, process.ok("GET", f"/messages/{message_id}")["error"]
            try:
                for number, event in follow(process, message_id, len(events)):
                    assert number == len(events) + 1
                    events[number] = event
                    if places and number >= places[0]:
                        places.pop(0)
                        process.kill()
                        process.start()
                        break
            except requests.RequestException:
                continue
        assert row_of(process, message_id)["status"] == "answered"
        assert len(places) < kills
        replayed = dict(follow(process, message_id, 0))
        stored = process.ok("GET", f"/messages/{message_id}")["result"]
        said = agent.whole
    assert replayed == events
    assert _texts(_folded(events)) == _texts(said)
    assert _texts(stored.get("task", stored)) == _texts(said)


def _is_over(events: dict[int, Body]) -> bool:
    last = events.get(len(events), {})
    return last.get("statusUpdate", {}).get("status", {}).get("state") == "TASK_STATE_COMPLETED"


def _folded(events: dict[int, Body]) -> Body:
    folded: Any = None
    for number in sorted(events):
        folded = tasks.fold(folded, events[number])
    return folded


def _texts(task: Body) -> dict[str, str]:
    return {
        artifact["artifactId"]: "".join(part["text"] for part in artifact["parts"])
        for artifact in task["artifacts"]
    }


@pytest.mark.slow  # the platform is killed twice and started again
@pytest.mark.parametrize("process", ["sqlite"], indirect=True)
@pytest.mark.parametrize("dialect", ["1.0", "0.3"])
def test_a_stream_of_large_artifacts_is_exact_over_kills_of_the_platform(
    process: PlatformProcess, dialect: Dialect
) -> None:
    stream_through_kills(process, dialect, kills=2, seed=1, size=100_000)


@pytest.mark.long  # ten starts each
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dialect", ["1.0", "0.3"])
def test_the_same_over_ten_kills(process: PlatformProcess, dialect: Dialect, seed: int) -> None:
    stream_through_kills(process, dialect, kills=10, seed=seed, size=500_000)


@pytest.mark.slow  # 17 MB in packets
@pytest.mark.parametrize("process", ["sqlite"], indirect=True)
def test_an_event_over_the_limit_fails_the_message_with_the_figure(process: PlatformProcess) -> None:
    def script(agent: StreamingAgent) -> Iterator[Body]:
        yield agent.update("before", append=False)
        yield agent.update("x" * (EVENT_MAX_BYTES + MEBIBYTE))

    process.start()
    with joined(process, "1.0", script) as (agent, workspace_id):
        agent.piece_bytes = PACKET_BYTES
        row = row_of(process, ask(process, workspace_id))
    assert (row["status"], row["error"]["code"]) == ("failed", "invalid-agent-response")
    assert f"larger than {EVENT_MAX_BYTES} bytes" in row["error"]["message"]
