"""An agent with a URL that does what its test says."""

import http.server
import json
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from molecule_agent import RemoteAgentClient
from tests.spec.platforms import Platform

BUSY_MOST_SECONDS = 30
STREAMS = ("SendStreamingMessage", "message/stream")

Body = dict[str, Any]


class Busy(NamedTuple):
    """The work of an agent: `arrived` once it has begun, over as soon as `leave` is set."""

    arrived: threading.Event
    leave: threading.Event


class ScriptedAgent:
    """A loopback server that answers from a script and remembers what it was sent."""

    def __init__(self) -> None:
        self.received: list[tuple[dict[str, str], Body]] = []
        self.script: list[tuple[int, Body]] = []
        self.respond: Callable[[Body], Body] = echo
        self.stream: Callable[[Body], list[Body]] | None = None
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, headers: dict[str, str], body: Body) -> tuple[int, Body]:
        """The next line of the script; when it has ended, whatever `respond` says."""
        self.received.append((headers, body))
        return self.script.pop(0) if self.script else (200, self.respond(body))

    def keep_busy(self) -> Busy:
        """Answer only when told to."""
        busy = Busy(threading.Event(), threading.Event())

        def work(body: Body) -> Body:
            busy.arrived.set()
            assert busy.leave.wait(BUSY_MOST_SECONDS)
            return echo(body)

        self.respond = work
        return busy

    def url(self, path: str = "/") -> str:
        """Where the agent is reached."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{path}"

    def close(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._server.server_close()


def echo(body: Body) -> Body:
    """The words of a 0.3 message, said back."""
    said = body["params"]["message"]["parts"][0]["text"]
    message = {
        "kind": "message",
        "messageId": "r",
        "role": "agent",
        "parts": [{"kind": "text", "text": f"re: {said}"}],
    }
    return {"jsonrpc": "2.0", "id": body["id"], "result": message}


def join_push(
    platform: Platform, agent: ScriptedAgent, path: str = "/", **register: Any
) -> RemoteAgentClient:
    """A new workspace whose agent is reached at its URL."""
    client = platform.join("pushed")
    body = {"id": client.workspace_id, "url": agent.url(path), "agent_card": {"name": "p"}, **register}
    answer = platform.ok("POST", "/registry/register", token=client.load_token(), json=body)
    assert answer["delivery_mode"] == "push"
    return client


def _frame(body: Body, result: Body) -> bytes:
    answer = {"jsonrpc": "2.0", "id": body["id"], "result": result}
    return b"data: " + json.dumps(answer).encode() + b"\n\n"


def _handler_of(agent: ScriptedAgent) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = agent.answer(dict(self.headers), body)
            encoded = json.dumps(answer).encode()
            self.send_response(status)
            if agent.stream is not None and body["method"] in STREAMS:
                self.send_header("Content-Type", "text/event-stream")
                encoded = b"".join(_frame(body, result) for result in agent.stream(body))
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        def log_message(self, format: str, *args: Any) -> None:
            return

    return Handler
