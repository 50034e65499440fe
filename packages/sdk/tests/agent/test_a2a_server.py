"""The agent's own door: who gets in, what is answered, and that no turn is run twice for one message."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import pytest
import requests

from molecule_agent import A2AServer, Fail, InboundMessage, PushDelivery, RemoteAgentClient
from molecule_agent.a2a_server import admission, callers, http_messages, http_server
from molecule_wire.callers import is_loopback

if TYPE_CHECKING:
    from .conftest import MakeClient  # noqa: TID252 - types only


class MakeServer(Protocol):
    """Starts a server that the fixture stops."""

    def __call__(self, handler: Callable[[dict[str, Any]], Any], **options: Any) -> A2AServer: ...


REFUSED: list[tuple[Any, int]] = [
    ({"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": {}}}, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "tasks/cancel", "params": {"id": "t"}}, -32001),
    ({"jsonrpc": "2.0", "id": 1, "method": "agent/getAuthenticatedExtendedCard"}, -32004),
    ({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": "t"}}, -32001),
    (
        {"jsonrpc": "2.0", "id": 1, "method": "tasks/pushNotificationConfig/list", "params": {"id": "t"}},
        -32003,
    ),
    ({"jsonrpc": "2.0", "id": 1, "method": "no/such"}, -32601),
    ({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {}}, -32009),
]


@pytest.fixture
def serve() -> Iterator[MakeServer]:
    servers: list[A2AServer] = []

    def start(handler: Any, **options: Any) -> A2AServer:
        settings: dict[str, Any] = {"host": "127.0.0.1"} | options
        server = A2AServer("agent-1", "/a2a/inbound", handler, **settings)
        server.start_in_background()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


def send(text: str = "hi", *, dialect: str = "0.3", **message: Any) -> dict[str, Any]:
    modern = dialect == "1.0"
    part = {"text": text} if modern else {"kind": "text", "text": text}
    body = {"role": "ROLE_USER" if modern else "user", "messageId": "m1", "parts": [part], **message}
    method = "SendMessage" if modern else "message/send"
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"message": body}}


def post(server: A2AServer, body: Any, path: str = "/a2a/inbound", **headers: str) -> requests.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = f"http://127.0.0.1:{server.port}{path}"
    return requests.post(url, data=data, headers={"Content-Type": "application/json"} | named, timeout=30)


def echo(payload: dict[str, Any]) -> str:
    return f"you said {payload['message']}"


def test_a_legacy_body_reaches_the_handler_unchanged(serve: MakeServer) -> None:
    got: list[Any] = []
    server = serve(lambda payload: got.append(payload) or {"done": True})
    response = post(server, {"task_id": "t", "anything": [1]})
    assert (response.status_code, response.json()) == (200, {"status": "ok", "result": {"done": True}})
    assert got == [{"task_id": "t", "anything": [1]}]
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'"text"'])
def test_a_bad_legacy_body_is_refused(body: bytes, serve: MakeServer) -> None:
    response = post(serve(echo), body)
    assert response.status_code == 400
    assert response.json()["error"].startswith("bad request: ")


def test_an_exception_of_the_handler_is_told_by_its_class_alone(
    serve: MakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(payload: Any) -> None:
        raise KeyError("the password")

    server = serve(broken)
    response = post(server, {"x": 1})
    assert response.status_code == 500
    assert response.json()["error"].startswith("internal error: KeyError (ref ")
    assert "password" not in response.text
    task = post(server, send()).json()["result"]
    assert task["status"]["state"] == "failed"
    assert "internal error: KeyError" in task["status"]["message"]["parts"][0]["text"]
    assert "password" not in json.dumps(task)


def test_a_failure_that_the_handler_names_is_told_in_its_words(serve: MakeServer) -> None:
    def refusing(payload: Any) -> None:
        raise Fail("no such customer")

    server = serve(refusing)
    assert post(server, {"x": 1}).json()["error"] == "no such customer"
    task = post(server, send()).json()["result"]
    assert task["status"]["state"] == "failed"
    assert task["status"]["message"]["parts"][0]["text"] == "no such customer"


@pytest.mark.parametrize("result", [{"text": "hi"}, 4, [], object()])
def test_a_result_that_is_no_answer_fails_the_task_of_a_client_s_own_server(
    result: Any, make_client: "MakeClient"
) -> None:
    def handler(message: InboundMessage, own_client: RemoteAgentClient) -> Any:
        return result

    server = make_client().start_a2a_server(handler, host="127.0.0.1", verify_callers=False)
    try:
        task = post(server, send()).json()["result"]
    finally:
        server.stop()
    assert task["status"]["state"] == "failed"
    assert f"handler returned a value of type {type(result).__name__}" in str(task["status"]["message"])


@pytest.mark.parametrize("path", ["/", "/a2a", "/a2a/", "/a2a/inbound", "/a2a/inbound/"])
def test_a_message_of_0_3_is_answered_with_a_task_of_0_3(path: str, serve: MakeServer) -> None:
    envelope = post(serve(echo), send(contextId="c1"), path).json()
    assert (envelope["jsonrpc"], envelope["id"]) == ("2.0", 7)
    task = envelope["result"]
    assert (task["kind"], task["contextId"], task["status"]["state"]) == ("task", "c1", "completed")
    assert task["status"]["message"]["role"] == "agent"
    assert task["status"]["message"]["parts"] == [{"kind": "text", "text": "you said hi"}]


def test_a_message_of_1_0_is_answered_in_1_0_and_its_task_can_be_read(serve: MakeServer) -> None:
    server = serve(echo)
    task = post(server, send(dialect="1.0"), A2A_Version="1.0").json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["status"]["message"]["parts"] == [{"text": "you said hi"}]
    assert task["history"][0]["messageId"] == "m1"
    query = {"jsonrpc": "2.0", "id": 8, "method": "GetTask", "params": {"id": task["id"], "historyLength": 0}}
    again = post(server, query, A2A_Version="1.0").json()["result"]
    assert again["id"] == task["id"]
    assert "history" not in again
    old = {"jsonrpc": "2.0", "id": 8, "method": "tasks/get", "params": {"id": task["id"]}}
    assert post(server, old).json()["result"]["kind"] == "task"


def test_what_the_handler_of_a_message_gets(serve: MakeServer) -> None:
    got: list[dict[str, Any]] = []
    server = serve(got.append)
    body = send("hi", contextId="c1") | {"sender": "workspace:peer-1", "idempotency_key": "ignored"}
    task = post(server, body, X_Molecule_Message_Id="row-1").json()["result"]
    assert got == [
        {
            **{name: body[name] for name in ("jsonrpc", "id", "method", "params")},
            "task_id": task["id"],
            "sender": "workspace:peer-1",
            "message": "hi",
            "idempotency_key": "row-1",
            "context_id": "c1",
            "parts": [{"text": "hi"}],
            "caller": None,
            "a2a": body["params"],
        }
    ]
    assert "message" not in task["status"]


@pytest.mark.parametrize(
    ("returned", "parts"),
    [
        ("text", [{"kind": "text", "text": "text"}]),
        ({"parts": [{"kind": "text", "text": "a"}]}, [{"kind": "text", "text": "a"}]),
        ({"reply": "no such key"}, [{"kind": "data", "data": {"reply": "no such key"}}]),
        ({"result": "done"}, [{"kind": "text", "text": "done"}]),
        ({"text": "done", "more": 1}, [{"kind": "text", "text": "done"}]),
    ],
)
def test_what_a_handler_returns_becomes_parts(returned: Any, parts: Any, serve: MakeServer) -> None:
    task = post(serve(lambda payload: returned), send()).json()["result"]
    assert task["status"]["message"]["parts"] == parts


def test_a_value_that_is_no_json_is_a_fault_of_the_handler(serve: MakeServer) -> None:
    task = post(serve(lambda payload: object()), send()).json()["result"]
    assert task["status"]["state"] == "failed"


def test_async_handlers_are_awaited(serve: MakeServer) -> None:
    async def handler(payload: dict[str, Any]) -> str:
        return "async"

    server = serve(handler)
    assert post(server, {"x": 1}).json()["result"] == "async"
    assert post(server, send()).json()["result"]["status"]["message"]["parts"][0]["text"] == "async"


def test_a_redelivery_gets_the_first_result_and_another_message_its_own(serve: MakeServer) -> None:
    runs: list[str] = []

    def handler(payload: dict[str, Any]) -> str:
        runs.append(payload["message"])
        return f"run {len(runs)}"

    server = serve(handler)
    first = post(server, send(), X_Molecule_Message_Id="row-1").json()
    assert post(server, send(), X_Molecule_Message_Id="row-1").json()["result"]["id"] == first["result"]["id"]
    post(server, send(), X_Molecule_Message_Id="row-2")
    post(server, send())
    post(server, send())
    assert len(runs) == 4
    body = {"message": "old", "idempotency_key": "k"}
    assert post(server, body).json() == post(server, body).json()
    assert post(server, body | {"message": "another"}).json()["result"] == "run 6"


def test_a_redelivery_attaches_to_the_running_turn(serve: MakeServer) -> None:
    runs, entered, may_end = list[int](), threading.Event(), threading.Event()

    def handler(payload: dict[str, Any]) -> str:
        runs.append(1)
        entered.set()
        assert may_end.wait(30)
        return "once"

    server = serve(handler, max_concurrency=1)
    answers: list[Any] = []

    def deliver() -> None:
        answers.append(post(server, send(), X_Molecule_Message_Id="row-1").json()["result"])

    first, second = threading.Thread(target=deliver), threading.Thread(target=deliver)
    first.start()
    assert entered.wait(30)
    second.start()
    busy = post(server, send(), X_Molecule_Message_Id="row-2")
    assert (busy.status_code, busy.json()["code"]) == (503, "agent-busy")
    assert busy.headers["Retry-After"] == "1"
    may_end.set()
    first.join(30)
    second.join(30)
    assert runs == [1]
    assert answers[0]["id"] == answers[1]["id"]


def test_a_failed_legacy_turn_runs_again_when_it_is_delivered_again(serve: MakeServer) -> None:
    runs: list[int] = []

    def second_time_lucky(payload: Any) -> str:
        runs.append(1)
        if len(runs) == 1:
            raise RuntimeError
        return "better"

    server = serve(second_time_lucky)
    assert post(server, {"a": 1}, X_Molecule_Message_Id="row-1").status_code == 500
    assert post(server, {"a": 1}, X_Molecule_Message_Id="row-1").json()["result"] == "better"


def test_a_handler_that_asks_for_another_try_is_given_the_message_again(serve: MakeServer) -> None:
    answers: list[Any] = [Fail("not yet", retry=True), "now"]

    def answer(_payload: dict[str, Any]) -> str:
        reply = answers.pop(0)
        if isinstance(reply, Fail):
            raise reply
        return reply

    server = serve(answer)
    refused = post(server, send(), X_Molecule_Message_Id="row-1")
    assert (refused.status_code, refused.json()["code"]) == (503, "agent-busy")
    task = post(server, send(), X_Molecule_Message_Id="row-1").json()["result"]
    assert task["status"]["message"]["parts"][0]["text"] == "now"


def test_a_handler_that_takes_too_long_has_failed(serve: MakeServer) -> None:
    may_end = threading.Event()
    server = serve(lambda payload: may_end.wait(30), handler_timeout=0.1)
    task = post(server, send()).json()["result"]
    assert task["status"]["state"] == "failed"
    assert "TimeoutError" in task["status"]["message"]["parts"][0]["text"]
    assert post(server, {"a": 1}).status_code == 500
    may_end.set()


def test_a_send_that_does_not_block_is_answered_at_once_and_read_later(serve: MakeServer) -> None:
    may_end = threading.Event()
    server = serve(lambda payload: may_end.wait(30) and "done")
    body = send()
    body["params"]["configuration"] = {"blocking": False}
    task = post(server, body).json()["result"]
    assert task["status"]["state"] == "working"
    may_end.set()
    server.stop()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        *REFUSED,
        (send(taskId="unknown"), -32001),
        (send() | {"params": {"message": {"role": "user"}}}, -32602),
    ],
)
def test_what_the_door_does_not_do_is_an_error_of_the_protocol(
    body: Any, code: int, serve: MakeServer
) -> None:
    response = post(serve(echo), body)
    assert response.status_code == 200
    assert response.json()["error"]["code"] == code


def test_a_message_to_a_task_that_has_ended_is_refused(serve: MakeServer) -> None:
    server = serve(echo)
    task = post(server, send()).json()["result"]
    assert post(server, send(taskId=task["id"])).json()["error"]["code"] == -32004


def test_another_content_type_is_refused_before_parsing(serve: MakeServer) -> None:
    response = post(serve(echo), b"not json", "/a2a", Content_Type="text/plain")
    assert response.json()["error"]["code"] == -32005


def test_card_and_health(serve: MakeServer) -> None:
    server = serve(echo, agent_card={"name": "docs-bot", "skills": []})
    base = f"http://127.0.0.1:{server.port}"
    assert requests.get(f"{base}/healthz", timeout=30).json() == {"status": "ok"}
    response = requests.get(f"{base}/.well-known/agent-card.json", timeout=30)
    card = response.json()
    assert card["supportedInterfaces"][0] == {
        "url": server.url,
        "protocolBinding": "JSONRPC",
        "protocolVersion": "1.0",
    }
    assert (card["url"], card["capabilities"]["streaming"]) == (server.url, True)
    assert card["additionalInterfaces"][1] == {"url": base, "transport": "HTTP+JSON"}
    assert card["skills"][0]["id"] == "chat"
    assert response.headers["Cache-Control"] == "max-age=60"
    again = requests.get(f"{base}/.well-known/agent.json", timeout=30)
    assert again.headers["Last-Modified"] == response.headers["Last-Modified"]
    etag = {"If-None-Match": response.headers["ETag"]}
    assert requests.get(f"{base}/.well-known/agent.json", headers=etag, timeout=30).status_code == 304
    head = requests.head(f"{base}/.well-known/agent-card.json", timeout=30)
    assert (head.status_code, head.text) == (200, "")


def test_many_sends_at_once_do_not_wedge_the_card(serve: MakeServer) -> None:
    # Room for all: a turn may still count for a moment after its answer.
    server = serve(echo, max_concurrency=128)
    card = f"http://127.0.0.1:{server.port}/.well-known/agent-card.json"
    with ThreadPoolExecutor(64) as pool:
        sent = [pool.submit(post, server, send(messageId=f"m{number}")) for number in range(500)]
        assert [requests.get(card, timeout=30).status_code for _ in range(20)] == [200] * 20
        assert all("result" in one.result().json() for one in sent)


def test_unknown_paths_and_wrong_methods(serve: MakeServer) -> None:
    server = serve(echo)
    base = f"http://127.0.0.1:{server.port}"
    missing = requests.get(f"{base}/nowhere", timeout=30)
    assert (missing.status_code, missing.json()) == (404, {"error": "not found"})
    wrong = requests.get(f"{base}/a2a/inbound", timeout=30)
    assert (wrong.status_code, wrong.headers["Allow"]) == (405, "POST")
    assert requests.delete(f"{base}/healthz", timeout=30).status_code == 405


def test_a_body_over_the_cap_is_refused_unread(serve: MakeServer) -> None:
    server = serve(echo, max_body_bytes=100)
    response = post(server, b"x" * 101)
    assert (response.status_code, response.json()["limit_bytes"]) == (413, 100)
    chunked = requests.post(f"http://127.0.0.1:{server.port}/a2a", data=iter([b"{}"]), timeout=30)
    assert chunked.status_code == 411


@pytest.mark.parametrize(
    "head",
    [
        b"<script> /x",
        b"GET /script HTTP/2.0",
        b"GET /healthz HTTP/1.1\r\nScript",
        b"GET /healthz HTTP/1.1\r\nX: script\r\n folded",
        b"GET /healthz HTTP/1.1\r\nX : script",
        b"POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 7",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: script",
        b"GET /healthz HTTP/1.1" + b"\r\nX: script" * 101,
    ],
)
def test_what_is_not_http_is_refused_without_an_echo(serve: MakeServer, head: bytes) -> None:
    server = serve(echo)
    with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
        connection.sendall(head + b"\r\n\r\n")
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"script" not in answer.lower()


def test_who_waits_for_leave_to_send_its_body_gets_it(serve: MakeServer) -> None:
    server = serve(echo)
    body = json.dumps(send()).encode()
    head = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
        connection.sendall(head % len(body))
        answer = connection.makefile("rb")
        assert answer.readline() == b"HTTP/1.1 100 Continue\r\n"
        connection.sendall(body)
        assert b"HTTP/1.1 200 OK" in answer.read()


@pytest.mark.parametrize(
    "headers",
    [
        {"X_Forwarded_For": "10.0.0.1"},
        {"Via": "1.1 proxy"},
        {"Origin": "https://evil.example.org"},
        {"Forwarded": "for=10.0.0.1"},
    ],
)
def test_a_relayed_request_is_refused_where_callers_cannot_be_verified(
    headers: dict[str, str], serve: MakeServer
) -> None:
    runs: list[Any] = []
    response = post(serve(runs.append), send(), **headers)
    assert (response.status_code, response.json()["code"]) == (401, "caller-unverified")
    assert "platform_url" in response.json()["error"]
    assert runs == []


@pytest.mark.parametrize("verify", ["auto", False])
def test_with_a_dispatch_secret_the_bearer_is_required_as_well(verify: Any, serve: MakeServer) -> None:
    server = serve(echo, host="0.0.0.0", dispatch_secret="s3cret", verify_callers=verify)
    assert post(server, send()).status_code == 401
    assert post(server, send(), Authorization="Bearer wrong").status_code == 401
    assert post(server, send(), Authorization="Basic s3cret").status_code == 401
    assert post(server, send(), Authorization="Bearer s3cret").status_code == 200
    relayed = post(server, send(), Authorization="Bearer s3cret", Via="1.1 proxy")
    assert relayed.status_code == (401 if verify == "auto" else 200)


def test_switching_the_check_off_is_told(serve: MakeServer, caplog: pytest.LogCaptureFixture) -> None:
    server = serve(echo, host="0.0.0.0", verify_callers=False)
    assert post(server, send(), Via="1.1 proxy").status_code == 200
    assert "does not verify its callers" in caplog.text


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("10.0.0.1", False),
        ("x", False),
    ],
)
def test_which_addresses_are_this_machine(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback
    nobody = callers.Callers("agent-1", callers.PlatformKeys())
    rule = admission.Admission("auto", "", nobody, lambda: "")
    request = http_messages.ServerRequest("POST", "/", peer_address=address)
    assert isinstance(rule.admit(request), http_messages.ServerRequest) is loopback


def test_two_servers_in_one_process_do_not_mix(serve: MakeServer) -> None:
    one, two = serve(lambda payload: "one"), serve(lambda payload: "two")
    assert post(one, {"x": 1}).json()["result"] == "one"
    assert post(two, {"x": 1}).json()["result"] == "two"


def test_starting_and_stopping_are_idempotent_and_the_port_is_real() -> None:
    server = A2AServer("agent-1", "https://agent.example.org/hook", echo, host="127.0.0.1")
    server.stop()
    with server:
        server.start_in_background()
        assert server._server is not None
        assert server._server.server_address[:2] == ("127.0.0.1", server.port)
        assert server.url == f"http://127.0.0.1:{server.port}/hook"
        assert post(server, send(), "/hook").status_code == 200
        card = requests.get(f"http://127.0.0.1:{server.port}/.well-known/agent.json", timeout=30).json()
        assert card["url"] == "https://agent.example.org/hook"
    server.stop()
    with pytest.raises(requests.ConnectionError):
        post(server, send())


def test_stopping_lets_running_handlers_answer() -> None:
    entered, may_end = threading.Event(), threading.Event()

    def handler(payload: Any) -> str:
        entered.set()
        assert may_end.wait(30)
        return "finished"

    server = A2AServer("agent-1", "/a2a/inbound", handler, host="127.0.0.1")
    server.start_in_background()
    answers: list[Any] = []
    caller = threading.Thread(target=lambda: answers.append(post(server, {"x": 1}).json()))
    caller.start()
    assert entered.wait(30)
    stopper = threading.Thread(target=server.stop)
    stopper.start()
    may_end.set()
    stopper.join(30)
    caller.join(30)
    assert answers == [{"status": "ok", "result": "finished"}]


def test_a_server_being_stopped_sends_new_work_away(serve: MakeServer) -> None:
    server = serve(echo)
    assert server._runs is not None
    server._runs.drain(0)
    response = post(server, send())
    assert (response.status_code, response.json()["code"]) == (503, "agent-stopping")


def test_a_connection_beyond_the_limit_is_closed(serve: MakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(echo)
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 0)
    with pytest.raises(requests.ConnectionError):
        post(server, send())


def test_a_connection_that_only_rests_makes_room_for_a_new_one(
    serve: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 2)
    server = serve(echo)
    url = f"http://127.0.0.1:{server.port}/healthz"
    sessions = [requests.Session() for _ in range(5)]
    assert [session.get(url, timeout=30).status_code for session in sessions] == [200] * 5
    for session in sessions:
        session.close()


def test_a_client_starts_its_own_server_and_reports_it(make_client: "MakeClient") -> None:
    client = make_client()
    got: list[InboundMessage] = []

    def handler(message: InboundMessage, own_client: RemoteAgentClient) -> str:
        assert own_client is client
        got.append(message)
        return "hello"

    server = client.start_a2a_server(
        handler, host="127.0.0.1", dispatch_secret="s3cret", verify_callers=False
    )
    try:
        assert client.reported_url == server.url == f"http://127.0.0.1:{server.port}/a2a"
        body = send(messageId="mine", referenceTaskIds=["t-1"]) | {"sender": "workspace:peer-1"}
        headers = {"X_Molecule_Message_Id": "row-1", "X_Molecule_Deadline": "2026-05-02T10:15:30.123Z"}
        response = post(server, body, Authorization="Bearer s3cret", **headers)
        assert response.json()["result"]["status"]["message"]["parts"][0]["text"] == "hello"
    finally:
        PushDelivery(client, server).stop()
    message = got[0]
    assert (message.source, message.source_id, message.text) == ("peer_agent", "peer-1", "hi")
    assert (message.message_id, message.deadline) == ("row-1", "2026-05-02T10:15:30.123Z")
    assert (message.client_message_id, message.reference_task_ids) == ("mine", ["t-1"])
    assert client._dispatch_secret == "s3cret"


@pytest.mark.parametrize(
    ("sender", "source", "source_id"),
    [
        ("user:ada", "canvas_user", ""),
        ("peer-1", "peer_agent", "peer-1"),
        ("system:liveness", "system", ""),
        ("martian:1", "unknown", ""),
        ("", "unknown", ""),
    ],
)
def test_who_sent_a_message(sender: str, source: str, source_id: str, make_client: "MakeClient") -> None:
    client, got = make_client(), list[InboundMessage]()

    def handler(message: InboundMessage, own_client: RemoteAgentClient) -> None:
        got.append(message)

    server = client.start_a2a_server(handler, host="127.0.0.1", verify_callers=False)
    try:
        post(server, {"sender": sender, "text": "hi", "task_id": "t"})
    finally:
        server.stop()
    assert (got[0].source, got[0].source_id, got[0].text, got[0].activity_id) == (
        source,
        source_id,
        "hi",
        "t",
    )
