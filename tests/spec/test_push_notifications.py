"""Push notifications: whoever asked for them is told every event, however rude its webhook is."""

import http.server
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from molecule_platform.agents import webhook_client
from molecule_wire.a2a import operations
from molecule_wire.a2a.operations import Dialect
from tests.spec.a2a import ASYNC, Caller, Problem, polled, pushed
from tests.spec.platforms import Platform

pytestmark = pytest.mark.usefixtures("prompt_retries")

PATIENCE_SECONDS = 30.0


class Webhook:
    """A loopback server that keeps what it is told, and answers by a script."""

    def __init__(self) -> None:
        self.told: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.script: list[int] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.may_answer.wait(PATIENCE_SECONDS)
                status = hook.script.pop(0) if hook.script else 204
                if status < 300:
                    headers = {name.lower(): value for name, value in self.headers.items()}
                    hook.told.append((headers, json.loads(body)))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    def close(self) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def hook() -> Iterator[Webhook]:
    """A webhook of the caller's."""
    webhook = Webhook()
    yield webhook
    webhook.close()


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def config(hook: Webhook, **more: Any) -> dict[str, Any]:
    return {"url": hook.url, "token": "t0ken", **more}


def test_every_event_is_told_in_order_with_what_the_receiver_needs_to_trust_it(
    pushing: Platform, hook: Webhook
) -> None:
    agent = polled(pushing)
    caller = agent.caller()
    task = caller.send(caller.message(), **ASYNC)["task"]
    authentication = {"scheme": "Bearer", "credentials": "s3cret"}
    made = caller.result(
        operations.PUSH_CREATE, {"taskId": task["id"], **config(hook, authentication=authentication)}
    )
    assert made["url"] == hook.url
    agent.answer("done")
    eventually(lambda: len(hook.told) == 2)
    assert [int(headers["x-molecule-sequence"]) for headers, _ in hook.told] == [2, 3]
    headers, body = hook.told[-1]
    assert body["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert headers["authorization"] == "Bearer s3cret"
    assert headers["x-a2a-notification-token"] == "t0ken"
    assert headers["content-type"] == "application/a2a+json"
    assert len({headers["x-molecule-delivery"] for headers, _ in hook.told}) == 2


def test_a_config_inside_a_send_never_reaches_the_agent_and_is_told_from_the_first_event(
    pushing: Platform, hook: Webhook
) -> None:
    with pushed(pushing) as agent:
        caller = agent.caller()
        inline: dict[str, Any] = {"configuration": {"taskPushNotificationConfig": config(hook)}}
        task = caller.send(caller.message("x", "chunked-1"), **inline)["task"]
        eventually(lambda: bool(hook.told) and "COMPLETED" in json.dumps(hook.told[-1][1]))
        assert "taskPushNotificationConfig" not in json.dumps(json.loads(agent.agent.received[-1].body))
        listed = caller.result(operations.PUSH_LIST, {"taskId": task["id"]})
        assert [one["url"] for one in listed["configs"]] == [hook.url]


def test_a_0_3_receiver_gets_the_whole_task(pushing: Platform, hook: Webhook) -> None:
    agent = polled(pushing)
    caller = agent.caller("rpc", "0.3")
    task = caller.send(caller.message(), configuration={"returnImmediately": True})["task"]
    caller.result(operations.PUSH_CREATE, {"taskId": task["id"], "pushNotificationConfig": {"url": hook.url}})
    agent.answer("done")
    eventually(lambda: len(hook.told) == 2)
    headers, body = hook.told[-1]
    assert (body["kind"], body["status"]["state"]) == ("task", "completed")
    assert headers["content-type"] == "application/json"


def test_a_webhook_that_fails_is_told_again_with_the_same_delivery(pushing: Platform, hook: Webhook) -> None:
    agent = polled(pushing)
    caller = agent.caller()
    hook.script = [500, 302]
    task = caller.send(caller.message(), **ASYNC)["task"]
    caller.result(operations.PUSH_CREATE, {"taskId": task["id"], **config(hook)})
    agent.lease()
    eventually(lambda: len(hook.told) == 1)
    assert not hook.script
    assert hook.told[0][1]["statusUpdate"]["status"]["state"] == "TASK_STATE_WORKING"


def test_a_slow_webhook_delays_no_event(pushing: Platform, hook: Webhook) -> None:
    hook.may_answer.clear()
    with pushed(pushing) as agent:
        caller = agent.caller()
        began = time.monotonic()
        inline: dict[str, Any] = {"configuration": {"taskPushNotificationConfig": config(hook)}}
        frames = caller.stream(caller.message("x", "chunked-1"), **inline)
        assert time.monotonic() - began < webhook_client.SECONDS - 2
        assert "COMPLETED" in json.dumps(frames[-1].event)
        assert hook.told == []
        hook.may_answer.set()
        eventually(lambda: bool(hook.told))


def test_an_address_inside_the_house_is_refused_when_it_is_named(platform: Platform, hook: Webhook) -> None:
    agent = polled(platform)
    caller = agent.caller()
    task = caller.send(caller.message(), **ASYNC)["task"]
    with pytest.raises(Problem) as refused:
        caller.result(operations.PUSH_CREATE, {"taskId": task["id"], **config(hook)})
    assert refused.value.error["code"] == -32602


class Names:
    """What the name server knows of `hook.example` at the moment."""

    def __init__(self) -> None:
        self.address: str | None = None
        self.asked = 0
        self._others = socket.getaddrinfo

    def look_up(self, host: Any, *rest: Any, **more: Any) -> Any:
        if host != "hook.example":
            return self._others(host, *rest, **more)
        self.asked += 1
        if self.address is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self._others(self.address, *rest, **more)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """The platform runs in this process and asks this name server."""
    server = Names()
    monkeypatch.setattr(socket, "getaddrinfo", server.look_up)
    return server


def registered(caller: Caller, task_id: str, url: str) -> Any:
    """A webhook of the task, as the caller's version registers it."""
    given = {"url": url, "id": "late"}
    nested = {"pushNotificationConfig": given} if caller.dialect == "0.3" else given
    return caller.result(operations.PUSH_CREATE, {"taskId": task_id, **nested})


def warnings(platform: Platform) -> list[dict[str, Any]]:
    events = platform.ok("GET", "/events")
    return [one["payload"] for one in events if one["event_type"] == "PUSH_CONFIG_UNRESOLVED"]


@pytest.mark.both_engines
@pytest.mark.parametrize("dialect", ["1.0", "0.3"])
def test_a_webhook_whose_name_comes_later_is_registered_with_a_warning_and_told_then(
    pushing: Platform, hook: Webhook, names: Names, dialect: Dialect
) -> None:
    agent = polled(pushing)
    caller = agent.caller("rpc", dialect)
    task = caller.send(caller.message(), **ASYNC)["task"]
    registered(caller, task["id"], hook.url.replace("127.0.0.1", "hook.example"))
    [warning] = warnings(pushing)
    assert (warning["task_id"], warning["config_id"]) == (task["id"], "late")
    assert "hook.example has no address" in warning["warning"]
    asked = names.asked
    agent.answer("done")
    eventually(lambda: names.asked > asked)
    assert hook.told == []
    names.address = "127.0.0.1"
    eventually(lambda: len(hook.told) == 2)


@pytest.mark.both_engines
@pytest.mark.parametrize("dialect", ["1.0", "0.3"])
def test_a_name_that_turns_out_to_be_inside_the_house_is_never_called(
    platform: Platform, hook: Webhook, names: Names, dialect: Dialect
) -> None:
    with pushed(platform) as agent:
        caller = agent.caller("rpc", dialect)
        url = hook.url.replace("127.0.0.1", "hook.example")
        inline: dict[str, Any] = {"configuration": {"taskPushNotificationConfig": {"url": url, "id": "late"}}}
        names.asked = 0
        caller.send(caller.message("x", "chunked-1"), **inline)
        [warning] = warnings(platform)
        assert warning["config_id"] == "late"
        names.address = "127.0.0.1"
        asked = names.asked
        eventually(lambda: names.asked >= asked + 2)
        assert hook.told == []


def test_a_name_that_leads_inside_the_house_is_refused_when_it_is_named(
    platform: Platform, hook: Webhook, names: Names
) -> None:
    names.address = "127.0.0.1"
    caller = polled(platform).caller()
    task = caller.send(caller.message(), **ASYNC)["task"]
    with pytest.raises(Problem) as refused:
        registered(caller, task["id"], hook.url.replace("127.0.0.1", "hook.example"))
    assert refused.value.error["code"] == -32602
    assert warnings(platform) == []


def test_a_config_belongs_to_its_creator(pushing: Platform, hook: Webhook) -> None:
    lead = pushing.create("lead")
    agent = polled(pushing, lead["id"])
    one, two = (pushing.create(name, lead["id"])["connection"]["auth_token"] for name in "ab")
    mine, other = agent.caller(token=one), agent.caller(token=two)
    task = mine.send(mine.message(), **ASYNC)["task"]
    made = mine.result(operations.PUSH_CREATE, {"taskId": task["id"], **config(hook)})
    asked = {"taskId": task["id"], "id": made["id"]}
    with pytest.raises(Problem) as refused:
        other.result(operations.PUSH_GET, asked)
    assert refused.value.error["code"] == -32001
    mine.result(operations.PUSH_DELETE, asked)
    mine.result(operations.PUSH_DELETE, asked)
    with pytest.raises(Problem) as gone:
        mine.result(operations.PUSH_GET, asked)
    assert gone.value.error["code"] == -32001
