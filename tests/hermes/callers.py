"""A caller of the plugin: sends messages to its port and receives the replies, both over real sockets."""

import json
import threading
import time
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import requests

SECRET_HEADER = "X-Molecule-A2A-Secret"


@dataclass(frozen=True)
class Reply:
    """One POST that the plugin made."""

    message_id: str
    content: str
    final: bool
    chat_id: str
    secret: str
    metadata: dict[str, Any]


@dataclass
class Caller:
    """A reply server and the client that names it as callback. Use as a context manager."""

    plugin_url: str
    secret: str
    replies: list[Reply] = field(default_factory=list[Reply])
    statuses: list[int] = field(default_factory=list[int])
    """What the next replies are answered with, before 200 is the answer again."""
    refusals: list[Any] = field(default_factory=list[Any])
    """What the plugin and its health said while the gateway was starting."""

    def __post_init__(self) -> None:
        self._arrived = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def callback_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/a2a/reply"

    def __enter__(self) -> "Caller":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def post(self, path: str, body: Any, **headers: str) -> requests.Response:
        """POST to the plugin, with the secret unless another one is given."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", SECRET_HEADER: self.secret, **headers}
        return requests.post(self.plugin_url + path, data=data, headers=sent, timeout=30)

    def message(self, chat_id: str, content: str, **fields: Any) -> dict[str, Any]:
        """The body of a message."""
        return {
            "chat_id": chat_id,
            "peer_id": "workspace:peer",
            "peer_name": "Peer",
            "content": content,
            "message_id": uuid.uuid4().hex,
            "callback_url": self.callback_url,
            **fields,
        }

    def send(self, chat_id: str, content: str, timeout: float = 30.0) -> str:
        """Send a message, repeated while the gateway starts; its id."""
        body = self.message(chat_id, content)
        until = time.monotonic() + timeout
        while True:
            try:
                answer = self.post("/a2a/inbound", body)
            except requests.ConnectionError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
                continue
            if answer.status_code != 503 or time.monotonic() > until:
                break
            assert answer.headers["Retry-After"] == "1"
            health = requests.get(f"{self.plugin_url}/a2a/health", timeout=5)
            self.refusals.append((answer.json(), health.status_code))
            time.sleep(0.05)
        assert answer.status_code == 202, answer.text
        assert answer.json() == {"ok": True, "message_id": body["message_id"]}
        return str(body["message_id"])

    def wait(self, message_id: str, timeout: float = 45.0) -> str:
        """The final answer to a message."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: self.finals(message_id), timeout):
                raise TimeoutError(f"no answer to {message_id} in {timeout:g} s; got {self.replies}")
        return self.finals(message_id)[0].content

    def ask(self, chat_id: str, content: str, timeout: float = 45.0) -> str:
        """Send a message and wait for its answer."""
        return self.wait(self.send(chat_id, content, timeout), timeout)

    def finals(self, message_id: str) -> list[Reply]:
        """The final replies to a message."""
        return [reply for reply in list(self.replies) if reply.message_id == message_id and reply.final]

    def receive(self, body: dict[str, Any], secret: str) -> int:
        """Keep a reply; the status of its answer."""
        with self._arrived:
            if self.statuses:
                return self.statuses.pop(0)
            metadata = body["metadata"]
            reply = Reply(
                body["reply_to"], body["content"], metadata["final"], body["chat_id"], secret, metadata
            )
            self.replies.append(reply)
            self._arrived.notify_all()
            return 200

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        caller = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                status = caller.receive(json.loads(data), self.headers.get(SECRET_HEADER, ""))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(b'{"ok": true}')

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler
