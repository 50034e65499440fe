"""What one client may take from an agent's own server, and who is answered when a handler takes too long."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
import requests

from molecule_agent import A2AServer
from molecule_agent.a2a_server import http_server


class MakeServer(Protocol):
    """Starts a server that the fixture stops."""

    def __call__(self, handler: Callable[[dict[str, Any]], Any], **options: Any) -> A2AServer: ...


@pytest.fixture
def serve() -> Iterator[MakeServer]:
    servers: list[A2AServer] = []

    def start(handler: Any, **options: Any) -> A2AServer:
        server = A2AServer("agent-1", "/a2a", handler, host="127.0.0.1", **options)
        server.start_in_background()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop(0)


def rpc(server: A2AServer, method: str, params: dict[str, Any], **headers: str) -> requests.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    named = {name.replace("_", "-"): value for name, value in headers.items()} | {"A2A-Version": "1.0"}
    return requests.post(f"http://127.0.0.1:{server.port}/", json=body, headers=named, timeout=30)


def send(server: A2AServer, text: str = "hi", **headers: str) -> requests.Response:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    return rpc(server, "SendMessage", {"message": message}, **headers)


def echo(payload: dict[str, Any]) -> str:
    return payload["message"]


def http_of(server: A2AServer) -> http_server.AgentHttpServer:
    assert server._server is not None
    return server._server


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Stuck:
    """A handler that hears of nothing until it is let go."""

    def __init__(self) -> None:
        self.entered, self.may_end, self.left = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, payload: dict[str, Any]) -> str:
        self.task_id = payload["task_id"]
        self.entered.set()
        assert self.may_end.wait(30)
        self.left.set()
        return "too late"


def in_thread(call: Callable[[], requests.Response]) -> tuple[threading.Thread, list[requests.Response]]:
    answers: list[requests.Response] = []
    thread = threading.Thread(target=lambda: answers.append(call()), daemon=True)
    thread.start()
    return thread, answers


def test_a_caller_is_told_of_the_deadline_while_the_handler_is_still_at_work(serve: MakeServer) -> None:
    handler = Stuck()
    server = serve(handler, handler_timeout=0.2)
    answer = send(server)
    assert answer.json()["result"]["task"]["status"]["state"] == "TASK_STATE_FAILED"
    assert not handler.left.is_set()
    handler.may_end.set()
    assert handler.left.wait(30)


def test_a_caller_is_told_of_a_cancel_while_the_handler_is_still_at_work(serve: MakeServer) -> None:
    handler = Stuck()
    server = serve(handler)
    waiting, answers = in_thread(lambda: send(server))
    assert handler.entered.wait(30)
    cancelled = rpc(server, "CancelTask", {"id": handler.task_id}).json()["result"]
    assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"
    waiting.join(30)
    assert answers[0].json()["result"]["task"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert not handler.left.is_set()
    handler.may_end.set()
    assert handler.left.wait(30)
    assert send(server).ok


def test_a_stranger_is_refused_before_his_body_is_read(serve: MakeServer) -> None:
    server = serve(echo, dispatch_secret="s3cret")
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n{")
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"the dispatch secret is missing or wrong" in answer


def test_a_request_that_does_not_come_to_its_end_is_cut(
    serve: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "REQUEST_SECONDS", 0.3)
    server = serve(echo)
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 10:  # a byte now and then keeps no connection alive
                connection.sendall(b" ")
                time.sleep(0.05)
        assert time.monotonic() - began < 5


def test_one_address_has_only_its_share_of_the_connections(
    serve: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS_PER_ADDRESS", 2)
    handler = Stuck()
    server = serve(handler)
    first, second = in_thread(lambda: send(server)), in_thread(lambda: send(server))
    assert handler.entered.wait(30)
    wait_for(lambda: len(http_of(server)._busy) == 2)
    with pytest.raises(requests.ConnectionError):
        send(server)
    handler.may_end.set()
    for thread, answers in (first, second):
        thread.join(30)
        assert answers[0].ok
    assert send(server).ok


def test_bodies_that_are_read_at_once_are_bounded_together(
    serve: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "MAX_BODIES_BYTES", 150_000)
    server = serve(echo)
    large = json.dumps({"padding": "x" * 100_000}).encode()
    head = f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {len(large)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as first:
        first.sendall(head + large[:-1])
        wait_for(lambda: http_of(server)._body_bytes > 0)
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as second:
            second.sendall(head + large)
            answer = second.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1" in answer
    wait_for(lambda: http_of(server)._body_bytes == 0)  # the first connection was closed within its body
    assert send(server, "x" * 100_000).ok


def test_two_lengths_are_refused(serve: MakeServer) -> None:
    server = serve(echo)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}")
        assert connection.makefile("rb").read().startswith(b"HTTP/1.1 400 ")
