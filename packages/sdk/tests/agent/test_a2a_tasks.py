"""Tasks at the agent's own door: streams, lists, cancelling, both bindings, and whose task it is."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import pytest
import requests

from molecule_agent import A2AServer, InboundMessage, PushDelivery, RemoteAgentClient
from molecule_agent.a2a_server import runs
from molecule_agent.testing import FakePlatform, caller_token

AGENT = "3f1c2d4e-5a6b-4c7d-8e9f-0a1b2c3d4e5f"
MODERN = {"A2A-Version": "1.0"}
COMPLETED = "TASK_STATE_COMPLETED"


class MakeServer(Protocol):
    """Starts a server that the fixture stops."""

    def __call__(self, handler: Callable[[dict[str, Any]], Any], **options: Any) -> A2AServer: ...


@pytest.fixture
def serve() -> Iterator[MakeServer]:
    servers: list[A2AServer] = []

    def start(handler: Any, **options: Any) -> A2AServer:
        settings: dict[str, Any] = {"host": "127.0.0.1"} | options
        servers.append(A2AServer(AGENT, "/a2a/inbound", handler, **settings))
        servers[-1].start_in_background()
        return servers[-1]

    yield start
    for server in servers:
        server.stop(0.5)


class Slow:
    """A handler that ends when it is let go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.may_end = threading.Event()
        self.runs = 0

    def __call__(self, payload: dict[str, Any]) -> str:
        self.runs += 1
        self.began.set()
        self.may_end.wait(30)
        return f"done: {payload['message']}"


@pytest.fixture
def slow() -> Iterator[Slow]:
    handler = Slow()
    yield handler
    handler.may_end.set()


def echo(payload: dict[str, Any]) -> str:
    return f"you said {payload['message']}"


def base(server: A2AServer) -> str:
    return f"http://127.0.0.1:{server.port}"


def message(text: str = "hi", **members: Any) -> dict[str, Any]:
    return {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}], **members}


def rpc(
    server: A2AServer, method: str, params: dict[str, Any], version: str = "1.0", **request: Any
) -> requests.Response:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    headers = ({"A2A-Version": version} if version else {}) | request.pop("headers", {})
    return requests.post(f"{base(server)}/a2a", json=body, headers=headers, timeout=30, **request)


def result(answer: requests.Response) -> dict[str, Any]:
    assert "result" in answer.json(), answer.text
    return answer.json()["result"]


def code(answer: requests.Response) -> int:
    return answer.json()["error"]["code"]


def background(server: A2AServer, text: str = "hi", **members: Any) -> dict[str, Any]:
    """A task that goes on after its send was answered."""
    params = {"message": message(text, **members), "configuration": {"returnImmediately": True}}
    return result(rpc(server, "SendMessage", params))["task"]


class Stream:
    """The frames of an event stream, one by one."""

    def __init__(self, answer: requests.Response) -> None:
        assert answer.headers["Content-Type"] == "text/event-stream", answer.text
        assert answer.headers["Cache-Control"] == "no-store"
        self.answer = answer
        self._lines = answer.iter_lines()

    def next(self) -> tuple[int, dict[str, Any]] | None:
        """The number and the data of the next frame; None for a keep-alive. StopIteration at the end."""
        lines: list[str] = []
        for raw in self._lines:
            if not raw:
                break
            lines.append(raw.decode())
        if not lines:
            raise StopIteration
        if lines == [": keep-alive"]:
            return None
        assert lines[0].startswith("id: ")
        return int(lines[0][4:]), json.loads(lines[1].removeprefix("data: "))

    def all(self) -> list[tuple[int, dict[str, Any]]]:
        frames: list[tuple[int, dict[str, Any]]] = []
        while True:
            try:
                frame = self.next()
            except StopIteration:
                return frames
            if frame is not None:
                frames.append(frame)


def stream(answer: requests.Response) -> Stream:
    return Stream(answer)


def states(frames: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, str, str]]:
    """Number, kind and state of each frame of a JSON-RPC stream of 1.0."""
    rows: list[tuple[int, str, str]] = []
    for number, frame in frames:
        assert frame["id"] == 7
        [(kind, body)] = frame["result"].items()
        rows.append((number, kind, body["status"]["state"]))
    return rows


WHOLE = [
    (1, "task", "TASK_STATE_SUBMITTED"),
    (2, "statusUpdate", "TASK_STATE_WORKING"),
    (3, "statusUpdate", COMPLETED),
]


# Streams


def test_a_stream_tells_the_task_and_then_every_event_with_its_number(serve: MakeServer) -> None:
    answer = rpc(serve(echo), "SendStreamingMessage", {"message": message()}, stream=True)
    frames = stream(answer).all()
    assert states(frames) == WHOLE
    assert frames[-1][1]["result"]["statusUpdate"]["status"]["message"]["parts"] == [{"text": "you said hi"}]


def test_a_stream_of_0_3_speaks_0_3(serve: MakeServer) -> None:
    body = {"messageId": "m1", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
    answer = rpc(serve(echo), "message/stream", {"message": body}, version="", stream=True)
    kinds = [(frame["result"]["kind"], frame["result"].get("final")) for _, frame in stream(answer).all()]
    assert kinds == [("task", None), ("status-update", False), ("status-update", True)]


def test_a_stream_is_told_as_it_happens(serve: MakeServer, slow: Slow) -> None:
    frames = stream(rpc(serve(slow), "SendStreamingMessage", {"message": message()}, stream=True))
    assert (
        states([frames.next() or pytest.fail("a keep-alive"), frames.next() or pytest.fail("a keep-alive")])
        == WHOLE[:2]
    )
    assert not slow.may_end.is_set()
    slow.may_end.set()
    assert states(frames.all()) == WHOLE[2:]


def test_a_silent_stream_is_kept_alive(
    serve: MakeServer, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "KEEP_ALIVE_SECONDS", 0.05)
    frames = stream(rpc(serve(slow), "SendStreamingMessage", {"message": message()}, stream=True))
    frames.next()
    frames.next()
    assert frames.next() is None
    slow.may_end.set()
    assert len(frames.all()) == 1


def test_hanging_up_ends_the_stream_and_not_the_task(serve: MakeServer, slow: Slow) -> None:
    server = serve(slow)
    frames = stream(rpc(server, "SendStreamingMessage", {"message": message()}, stream=True))
    first = frames.next()
    assert first is not None
    frames.answer.close()
    slow.may_end.set()
    task_id = first[1]["result"]["task"]["id"]
    _eventually(lambda: result(rpc(server, "GetTask", {"id": task_id}))["status"]["state"] == COMPLETED)


def test_what_is_wrong_before_the_first_event_is_no_stream(serve: MakeServer) -> None:
    answer = rpc(serve(echo), "SendStreamingMessage", {"message": {}})
    assert answer.headers["Content-Type"] == "application/json"
    assert code(answer) == -32602


def test_a_stream_of_a_handler_that_takes_too_long_ends(serve: MakeServer, slow: Slow) -> None:
    server = serve(slow, handler_timeout=0.1)
    frames = stream(rpc(server, "SendStreamingMessage", {"message": message()}, stream=True)).all()
    assert states(frames)[-1][2] == "TASK_STATE_FAILED"


def test_a_task_in_the_background_also_has_only_its_time(serve: MakeServer, slow: Slow) -> None:
    server = serve(slow, handler_timeout=0.1)
    task = background(server)
    _eventually(
        lambda: result(rpc(server, "GetTask", {"id": task["id"]}))["status"]["state"] == "TASK_STATE_FAILED"
    )


def test_stopping_lets_a_stream_come_to_its_end(serve: MakeServer, slow: Slow) -> None:
    server = serve(slow)
    frames = stream(rpc(server, "SendStreamingMessage", {"message": message()}, stream=True))
    assert slow.began.wait(30)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    slow.may_end.set()
    assert states(frames.all()) == WHOLE
    stopping.join(30)
    assert not stopping.is_alive()


def test_a_client_of_http_1_0_gets_its_stream_too(serve: MakeServer) -> None:
    import socket

    server = serve(echo)
    body = json.dumps({"message": message()}).encode()
    head = f"POST /message:stream HTTP/1.0\r\nA2A-Version: 1.0\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
        connection.sendall(head.encode() + body)
        answer = connection.makefile("rb").read()
    assert b"Transfer-Encoding" not in answer
    assert answer.count(b"\nid: ") == 3


# Following


def test_a_follower_gets_the_whole_task_and_what_comes_after(serve: MakeServer, slow: Slow) -> None:
    server = serve(slow)
    task = background(server)
    slow.began.wait(30)
    followers = [
        stream(rpc(server, "SubscribeToTask", {"id": task["id"]}, stream=True)),
        stream(rpc(server, "tasks/resubscribe", {"id": task["id"]}, version="0.3", stream=True)),
    ]
    number, first = followers[0].next() or pytest.fail("a keep-alive")
    assert (number, first["result"]["task"]["status"]["state"]) == (2, "TASK_STATE_WORKING")
    assert first["result"]["task"]["history"][0]["parts"] == [{"text": "hi"}]
    assert (followers[1].next() or pytest.fail("a keep-alive"))[0] == 2
    slow.may_end.set()
    assert states(followers[0].all()) == WHOLE[2:]
    assert [number for number, _ in followers[1].all()] == [3]


def test_a_follower_that_was_cut_off_goes_on_where_it_was(serve: MakeServer) -> None:
    server = serve(echo)
    streamed = stream(rpc(server, "SendStreamingMessage", {"message": message()}, stream=True)).all()
    task = streamed[0][1]["result"]["task"]

    def resume(seen: str) -> requests.Response:
        return rpc(
            server, "SubscribeToTask", {"id": task["id"]}, headers={"Last-Event-ID": seen}, stream=True
        )

    frames = stream(resume("1")).all()
    number, thin = frames[0]
    assert (number, thin["result"]["task"]["metadata"]) == (1, {"molecule.resumedAfter": 1})
    assert set(thin["result"]["task"]) == {"id", "contextId", "status", "metadata"}
    assert thin["result"]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert states(frames[1:]) == WHOLE[1:]
    assert states(stream(resume("0")).all()) == WHOLE
    assert code(resume("3")) == -32004
    assert [code(resume(seen)) for seen in ("4", "-1", "x")] == [-32602] * 3
    assert code(rpc(server, "SubscribeToTask", {"id": task["id"]})) == -32004


# Cancelling


def test_a_cancelled_task_has_ended_whatever_its_handler_still_says(serve: MakeServer, slow: Slow) -> None:
    server = serve(slow)
    task = background(server)
    follower = stream(rpc(server, "SubscribeToTask", {"id": task["id"]}, stream=True))
    canceled = result(rpc(server, "CancelTask", {"id": task["id"]}))
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert states(follower.all())[-1][1:] == ("statusUpdate", "TASK_STATE_CANCELED")
    slow.may_end.set()
    assert code(rpc(server, "CancelTask", {"id": task["id"]})) == -32002
    assert result(rpc(server, "GetTask", {"id": task["id"]}))["status"]["state"] == "TASK_STATE_CANCELED"


def test_a_handler_learns_that_nobody_wants_its_result(tmp_path: Any) -> None:
    learnt = threading.Event()

    def handler(message: InboundMessage, client: RemoteAgentClient) -> str:
        assert message.cancelled.wait(30)
        learnt.set()
        return "never mind"

    with RemoteAgentClient(AGENT, "http://127.0.0.1:9", token_dir=tmp_path) as client:
        server = client.start_a2a_server(handler, host="127.0.0.1", verify_callers=False)
        try:
            task = background(server)
            rpc(server, "CancelTask", {"id": task["id"]})
            assert learnt.wait(30)
        finally:
            PushDelivery(client, server).stop()


def test_the_platform_cancels_by_the_message_what_has_not_been_answered_yet(
    serve: MakeServer, slow: Slow
) -> None:
    platform = FakePlatform()

    def by(caller: str, row: str = "row-1") -> dict[str, str]:
        return {"X-Molecule-Caller": caller_token(platform, caller, AGENT), "X-Molecule-Message-Id": row}

    with platform.serve() as url, ThreadPoolExecutor(1) as pool:
        server = serve(slow, platform_url=url)
        sent = pool.submit(rpc, server, "SendMessage", {"message": message()}, headers=by("user:ann"))
        assert slow.began.wait(30)
        for stranger in (by("user:bob"), by("user:ann", "row-2")):
            assert code(rpc(server, "CancelTask", {"id": "row-1"}, headers=stranger)) == -32001
        canceled = result(rpc(server, "CancelTask", {"id": "row-1"}, headers=by("user:ann")))
        assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
        assert result(sent.result())["task"] == canceled
        slow.may_end.set()
        # A dead letter may come again, and is then wanted.
        again = result(rpc(server, "SendMessage", {"message": message()}, headers=by("user:ann")))["task"]
        assert (again["status"]["state"], slow.runs) == (COMPLETED, 2)


# Lists and history


def test_tasks_are_listed_the_newest_first_page_by_page(serve: MakeServer) -> None:
    server = serve(echo)
    sent = [
        result(rpc(server, "SendMessage", {"message": message(contextId=f"c{n % 2}")}))["task"]["id"]
        for n in range(5)
    ]
    first = result(rpc(server, "ListTasks", {"pageSize": 3}))
    assert (first["pageSize"], first["totalSize"]) == (3, 5)
    second = result(rpc(server, "ListTasks", {"pageSize": 3, "pageToken": first["nextPageToken"]}))
    assert second["nextPageToken"] == ""
    listed = [task["id"] for task in first["tasks"] + second["tasks"]]
    assert sorted(listed) == sorted(sent)
    times = [task["status"]["timestamp"] for task in first["tasks"] + second["tasks"]]
    assert times == sorted(times, reverse=True)
    assert result(rpc(server, "ListTasks", {"contextId": "c1"}))["totalSize"] == 2
    assert result(rpc(server, "ListTasks", {"status": "TASK_STATE_FAILED"}))["tasks"] == []
    assert result(rpc(server, "ListTasks", {"statusTimestampAfter": times[0]}))["totalSize"] == 0
    for params in (
        {"pageToken": "forged"},
        {"pageToken": first["nextPageToken"], "contextId": "c1"},
        {"pageSize": 0},
    ):
        assert code(rpc(server, "ListTasks", params)) == -32602


def test_history_is_as_long_as_it_is_asked_for(serve: MakeServer) -> None:
    server = serve(echo)
    configuration = {"historyLength": 0}
    task = result(rpc(server, "SendMessage", {"message": message(), "configuration": configuration}))["task"]
    assert "history" not in task
    assert len(result(rpc(server, "GetTask", {"id": task["id"]}))["history"]) == 1
    assert "history" not in result(rpc(server, "GetTask", {"id": task["id"], "historyLength": 0}))


def test_every_message_of_one_id_is_its_own(serve: MakeServer) -> None:
    server = serve(echo)
    for _ in range(3):
        rpc(server, "SendMessage", {"message": message()})
    assert result(rpc(server, "ListTasks", {}))["totalSize"] == 3


# Repeating


def test_a_key_makes_a_send_repeatable(serve: MakeServer, slow: Slow) -> None:
    server = serve(slow)
    headers = {"Idempotency-Key": "k1"}
    params: dict[str, Any] = {"message": message(), "configuration": {"returnImmediately": True}}
    first = result(rpc(server, "SendMessage", params, headers=headers))["task"]["id"]
    assert result(rpc(server, "SendMessage", params, headers=headers))["task"]["id"] == first
    slow.may_end.set()
    conflict = rpc(server, "SendMessage", {"message": message("other")}, headers=headers)
    assert conflict.status_code == 409
    [info] = conflict.json()["error"]["data"]
    assert (info["metadata"]["code"], info["metadata"]["existing_id"]) == ("idempotency-conflict", first)
    assert slow.runs == 1


def test_a_redelivered_stream_attaches_to_the_running_turn(serve: MakeServer, slow: Slow) -> None:
    server = serve(slow)
    headers = {"X-Molecule-Message-Id": "row-1"}
    both = [
        stream(rpc(server, "SendStreamingMessage", {"message": message()}, headers=headers, stream=True))
        for _ in range(2)
    ]
    slow.may_end.set()
    assert [states(one.all()) for one in both] == [WHOLE, WHOLE]
    assert slow.runs == 1


# HTTP+JSON


@pytest.mark.parametrize("slash", ["", "/"])
def test_every_operation_of_the_rest_binding(slash: str, serve: MakeServer, slow: Slow) -> None:
    server = serve(slow)
    slow.may_end.set()
    url, session = base(server), requests.Session()
    session.headers.update(MODERN)
    sent = session.post(f"{url}/message:send{slash}", json={"message": message()}, timeout=30)
    task = sent.json()["task"]
    assert task["status"]["state"] == COMPLETED
    assert session.get(f"{url}/tasks/{task['id']}{slash}", timeout=30).json()["id"] == task["id"]
    assert session.get(f"{url}/tasks{slash}?pageSize=1", timeout=30).json()["totalSize"] == 1
    response = session.post(
        f"{url}/message:stream{slash}", json={"message": message()}, timeout=30, stream=True
    )
    assert [list(frame) for _, frame in stream(response).all()] == [
        ["task"],
        ["statusUpdate"],
        ["statusUpdate"],
    ]
    ended = session.post(f"{url}/tasks/{task['id']}:cancel{slash}", timeout=30)
    assert (ended.status_code, ended.json()["error"]["status"]) == (400, "FAILED_PRECONDITION")
    for method in ("GET", "POST"):
        follow = session.request(method, f"{url}/tasks/{task['id']}:subscribe{slash}", timeout=30)
        assert follow.json()["error"]["details"][0]["reason"] == "UNSUPPORTED_OPERATION"
    push = session.get(f"{url}/tasks/{task['id']}/pushNotificationConfigs{slash}", timeout=30)
    assert push.json()["error"]["details"][0]["reason"] == "PUSH_NOTIFICATION_NOT_SUPPORTED"
    session.close()


def test_the_rest_binding_of_0_3(serve: MakeServer) -> None:
    url = base(serve(echo))
    body = {"messageId": "m1", "role": "ROLE_USER", "content": [{"text": "hi"}]}
    task = requests.post(f"{url}/v1/message:send", json={"message": body}, timeout=30).json()["task"]
    assert task["status"]["message"]["content"] == [{"text": "you said hi"}]
    assert requests.get(f"{url}/v1/tasks/{task['id']}", timeout=30).json()["id"] == task["id"]
    assert requests.get(f"{url}/v1/tasks", timeout=30).status_code == 404


def test_the_rest_binding_says_what_is_wrong(serve: MakeServer) -> None:
    url = base(serve(echo))
    unnamed = requests.post(f"{url}/message:send", json={"message": message()}, timeout=30)
    assert (unnamed.status_code, unnamed.json()["error"]["details"][0]["reason"]) == (
        400,
        "VERSION_NOT_SUPPORTED",
    )
    plain = requests.post(
        f"{url}/message:send", data=b"hi", headers=MODERN | {"Content-Type": "text/plain"}, timeout=30
    )
    assert plain.json()["error"]["details"][0]["reason"] == "CONTENT_TYPE_NOT_SUPPORTED"
    unknown = requests.get(f"{url}/tasks/nobody", headers=MODERN, timeout=30)
    assert (unknown.status_code, unknown.json()["error"]["status"]) == (404, "NOT_FOUND")
    wrong = requests.delete(f"{url}/tasks/nobody", headers=MODERN, timeout=30)
    assert (wrong.status_code, wrong.headers["Allow"]) == (405, "GET")
    media = MODERN | {"Accept": "application/a2a+json"}
    assert requests.get(f"{url}/tasks", headers=media, timeout=30).headers["Content-Type"] == media["Accept"]


def test_a_tenant_has_its_own_tasks_wherever_it_is_named(serve: MakeServer) -> None:
    server = serve(echo)
    url = base(server)
    task = requests.post(
        f"{url}/acme/message:send", json={"message": message()}, headers=MODERN, timeout=30
    ).json()["task"]
    assert code(rpc(server, "GetTask", {"id": task["id"]})) == -32001
    assert result(rpc(server, "GetTask", {"id": task["id"], "tenant": "acme"}))["id"] == task["id"]
    assert result(rpc(server, "ListTasks", {}))["totalSize"] == 0
    both = requests.post(
        f"{url}/acme/message:send", json={"message": message(), "tenant": "b"}, headers=MODERN, timeout=30
    )
    assert both.json()["error"]["status"] == "INVALID_ARGUMENT"
    assert requests.get(f"{url}/.well-known/tasks", headers=MODERN, timeout=30).status_code == 404


# Whose task it is


def test_a_task_exists_for_its_caller_alone(serve: MakeServer, slow: Slow) -> None:
    platform = FakePlatform()
    with platform.serve() as url:
        server = serve(slow, platform_url=url)

        def by(caller: str) -> dict[str, str]:
            return {"X-Molecule-Caller": caller_token(platform, caller, AGENT)}

        params = {"message": message(), "configuration": {"returnImmediately": True}}
        task = result(rpc(server, "SendMessage", params, headers=by("user:ann")))["task"]
        named = {"id": task["id"]}
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            assert code(rpc(server, method, named, headers=by("user:bob"))) == -32001
        assert result(rpc(server, "ListTasks", {}, headers=by("user:bob")))["tasks"] == []
        assert result(rpc(server, "GetTask", named, headers=by("user:ann")))["id"] == task["id"]
        continued = {"message": message(taskId=task["id"])}
        assert code(rpc(server, "SendMessage", continued, headers=by("user:bob"))) == -32001
        assert code(rpc(server, "SendMessage", continued, headers=by("user:ann"))) == -32004
        elsewhere = {"message": message(taskId=task["id"], contextId="another")}
        assert code(rpc(server, "SendMessage", elsewhere, headers=by("user:ann"))) == -32602


def test_no_operation_is_done_for_a_stranger(serve: MakeServer) -> None:
    platform = FakePlatform()
    with platform.serve() as url:
        server = serve(lambda payload: pytest.fail("it ran"), platform_url=url)
        expired = caller_token(platform, "user:ann", AGENT, lifetime=60, iat=0, nbf=0, exp=60)
        for method, path in (
            ("POST", "/a2a"),
            ("POST", "/a2a/inbound"),
            ("POST", "/message:send"),
            ("POST", "/message:stream"),
            ("GET", "/tasks"),
            ("GET", "/tasks/x"),
            ("POST", "/v1/tasks/x:cancel"),
        ):
            answer = requests.request(method, base(server) + path, json={}, timeout=30)
            assert (answer.status_code, answer.json()["code"]) == (401, "caller-unverified")
            headers = {"X-Molecule-Caller": expired}
            answer = requests.request(method, base(server) + path, json={}, headers=headers, timeout=30)
            assert (answer.status_code, answer.json()["code"]) == (401, "caller-assertion-invalid")


def test_the_fake_platform_vouches_for_a_caller_of_either_form(serve: MakeServer) -> None:
    platform = FakePlatform()
    with platform.serve() as url:
        server = serve(lambda payload: payload["caller"]["principal"], platform_url=url)
        headers = {"X-Molecule-Caller": caller_token(platform, "user:ann", f"workspace:{AGENT}")}
        legacy = requests.post(f"{base(server)}/a2a/inbound", json={"text": "x"}, headers=headers, timeout=30)
        assert legacy.status_code == 500  # the legacy payload is the body, unchanged: it names no caller
        headers = {"X-Molecule-Caller": caller_token(platform, "user:ann", AGENT, message_id="m1")}
        task = result(rpc(server, "SendMessage", {"message": message()}, headers=headers))["task"]
        assert task["status"]["message"]["parts"] == [{"text": "user:ann"}]


def _eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
