"""A model endpoint that follows a script: OpenAI chat completions over a real socket, without a model.

    with ScriptedModel(by_text({"weather": "It rains."})) as model:
        start_an_engine(base_url=model.base_url)
    assert model.requests[0].last_user_text == "How is the weather?"

Without a script it answers with every user text that it was given, which shows what an engine remembers.
"""

import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, TypeAlias, cast

MODEL = "scripted"
CONTEXT_LENGTH = 131_072
MAX_BODY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool that the model asks for."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class ModelReply:
    """What the endpoint answers to one request.

    A text goes out in `pieces` when the engine asked for a stream (one piece for each word unless given).
    A status that is not 200 sends `text` as the body of an error, as HTML if it looks so. `hold` keeps the
    answer back until it is set; `delay` for some seconds; a `silent` reply never comes.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    pieces: tuple[str, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    hold: threading.Event | None = None
    delay: float = 0.0
    silent: bool = False

    @property
    def is_html(self) -> bool:
        """Whether the text is a page instead of what an API answers."""
        return self.text.lstrip().startswith("<")


@dataclass(frozen=True)
class ModelRequest:
    """One request that an engine made."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    received_at: float

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation that the engine sent."""
        return self.body.get("messages") or []

    @property
    def user_texts(self) -> list[str]:
        """What the user said, oldest first."""
        return [text_of(message) for message in self.messages if message.get("role") == "user"]

    @property
    def last_user_text(self) -> str:
        """What the user said last; empty if nothing."""
        return (self.user_texts or [""])[-1]

    @property
    def tool_results(self) -> list[str]:
        """What tools answered since the user said something."""
        found = list[str]()
        for message in self.messages:
            if message.get("role") == "user":
                found.clear()
            elif message.get("role") == "tool":
                found.append(text_of(message))
        return found

    @property
    def tools(self) -> list[str]:
        """The names of the tools that the engine offered."""
        offered: list[dict[str, Any]] = self.body.get("tools") or []
        return [str(tool.get("function", {}).get("name", "")) for tool in offered]


Script: TypeAlias = Callable[[ModelRequest], "ModelReply | str"]


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, whether its content is a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        parts = cast("list[dict[str, Any]]", content)
        return "\n".join(str(part["text"]) for part in parts if "text" in part)
    return content if isinstance(content, str) else ""


def recall(request: ModelRequest) -> str:
    """Answer with every user text of the conversation, one in a line."""
    return "you said:\n" + "\n".join(request.user_texts)


def by_text(rules: Mapping[str, "ModelReply | str | Script"], otherwise: Script = recall) -> Script:
    """A script that takes the first rule whose words are in the last user text."""

    def answer(request: ModelRequest) -> ModelReply | str:
        for words, reply in rules.items():
            if words in request.last_user_text:
                return reply(request) if callable(reply) else reply
        return otherwise(request)

    return answer


class ScriptedModel:
    """The endpoint; a context manager that listens on this host, on a free port unless one is given.

    `script` may be replaced at any time and is called in the thread of each request.
    """

    def __init__(self, script: Script = recall, port: int = 0) -> None:
        self.script: Script = script
        self.requests: list[ModelRequest] = []
        self.closing = threading.Event()
        self._arrived = threading.Condition()
        self._server = _Server(self, port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def base_url(self) -> str:
        """The base URL that an engine is given."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> "ScriptedModel":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and let go of every answer that is held back."""
        self.closing.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def record(self, request: ModelRequest) -> None:
        """Keep a request, and wake who waits for it."""
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()

    def find(self, words: str) -> list[ModelRequest]:
        """The requests whose last user text has these words."""
        return [request for request in list(self.requests) if words in request.last_user_text]

    def wait_for(self, words: str, timeout: float = 30.0) -> ModelRequest:
        """Wait for a request whose last user text has these words; raises TimeoutError."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: self.find(words), timeout):
                raise TimeoutError(f"no request with {words!r} in {timeout:g} s")
            return self.find(words)[0]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a silent answer must not keep the test

    def __init__(self, model: ScriptedModel, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.model = model

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An engine that went away in the middle is no error of the endpoint."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] - only this server makes handlers

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are recorded, not printed."""

    def do_GET(self) -> None:
        """The list of models; engines look there for the length of the context."""
        if self.path.rstrip("/") != "/v1/models":
            return self._send(404, {"error": {"message": "not found"}})
        row = {"id": MODEL, "object": "model", "context_length": CONTEXT_LENGTH, "owned_by": "molecule"}
        return self._send(200, {"object": "list", "data": [row]})

    def do_POST(self) -> None:
        """A chat completion."""
        length = min(int(self.headers.get("Content-Length") or 0), MAX_BODY_BYTES)
        data = self.rfile.read(length)
        if self.path.rstrip("/") != "/v1/chat/completions":
            return self._send(404, {"error": {"message": "not found"}})
        model = self.server.model
        request = ModelRequest(self.path, dict(self.headers.items()), json.loads(data), time.monotonic())
        model.record(request)
        script_result = model.script(request)
        reply = ModelReply(script_result) if isinstance(script_result, str) else script_result
        if not self._wait(reply):
            self.close_connection = True
            return None
        if reply.status != 200 or reply.is_html:
            return self._send_failure(reply)
        if request.body.get("stream"):
            return self._stream(request, reply)
        return self._send(200, _completion(request, reply), reply.headers)

    def _wait(self, reply: ModelReply) -> bool:
        """Whether the answer may go out: not when it is silent, nor when the endpoint closes."""
        closing = self.server.model.closing
        if reply.silent:
            closing.wait()
        if reply.delay:
            closing.wait(reply.delay)
        while reply.hold is not None and not closing.is_set() and not reply.hold.wait(0.02):
            pass
        return not closing.is_set()

    def _send_failure(self, reply: ModelReply) -> None:
        if reply.is_html:
            return self._send_bytes(reply.status, reply.text.encode(), "text/html", reply.headers)
        error = {"message": reply.text, "type": "scripted", "code": reply.status}
        return self._send(reply.status, {"error": error}, reply.headers)

    def _stream(self, request: ModelRequest, reply: ModelReply) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for chunk in _chunks(request, reply):
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        self._send_bytes(status, json.dumps(body).encode(), "application/json", headers or {})

    def _send_bytes(self, status: int, data: bytes, kind: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def _completion(request: ModelRequest, reply: ModelReply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.tool_calls:
        message["tool_calls"] = _tool_calls(reply)
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
    return {**_head("chat.completion"), "choices": [choice], "usage": _usage(request, reply)}


def _chunks(request: ModelRequest, reply: ModelReply) -> list[dict[str, Any]]:
    """The chunks of a stream: a role, the pieces or tool calls, the reason of the end, the usage."""
    head = _head("chat.completion.chunk")
    pieces = reply.pieces or tuple(word + " " for word in reply.text.split(" "))
    if not reply.pieces and pieces:
        pieces = (*pieces[:-1], pieces[-1][:-1])
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in pieces if piece]
    if reply.tool_calls:
        deltas.append({"tool_calls": [{"index": n, **call} for n, call in enumerate(_tool_calls(reply))]})
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    end: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": _finish_reason(reply)}
    return [*chunks, {**head, "choices": [end]}, {**head, "choices": [], "usage": _usage(request, reply)}]


def _tool_calls(reply: ModelReply) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{uuid.uuid4().hex[:12]}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for call in reply.tool_calls
    ]


def _head(kind: str) -> dict[str, Any]:
    name = f"chatcmpl-{uuid.uuid4().hex[:12]}"
    return {"id": name, "object": kind, "created": int(time.time()), "model": MODEL}


def _finish_reason(reply: ModelReply) -> str:
    return "tool_calls" if reply.tool_calls else "stop"


def _usage(request: ModelRequest, reply: ModelReply) -> dict[str, int]:
    """Words instead of tokens: enough to see that they are counted."""
    prompt_tokens = sum(len(text_of(message).split()) for message in request.messages)
    answered = len(reply.text.split())
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": answered,
        "total_tokens": prompt_tokens + answered,
    }
