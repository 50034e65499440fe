"""The acceptance checklist of the A2A contract, line by line, as far as it binds the platform's two doors."""

import concurrent.futures
import json
import socket
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
import requests

from molecule_platform.services.messaging.tasks import task_streams
from molecule_platform.testing import behaviours
from molecule_platform.testing.scripted_agent import ScriptedAgent
from molecule_wire.a2a import operations
from molecule_wire.a2a.operations import Operation
from tests.spec.a2a import ASYNC, FRAMINGS, PLATFORM_PATH, Caller, Frame, Problem, polled, pushed
from tests.spec.platforms import Platform, Start

EVERY_FRAMING = (*FRAMINGS, *PLATFORM_PATH)
NEW = {"A2A-Version": "1.0"}


def problem_of(answer: requests.Response) -> dict[str, Any]:
    return answer.json()["error"]


def contexts_in(value: Any) -> set[str]:
    """Every contextId anywhere in a value."""
    if isinstance(value, list):
        return set[str]().union(*map(contexts_in, cast("list[Any]", value)))
    if not isinstance(value, dict):
        return set()
    members = cast("dict[str, Any]", value)
    own: set[str] = {members["contextId"]} if "contextId" in members else set()
    return own.union(*map(contexts_in, members.values()))


def numbers(frames: list[Frame]) -> list[int | None]:
    return [frame.id for frame in frames]


# - non-JSON Content-Type on JSON-RPC → -32005 before parsing


def test_a_body_that_says_it_is_no_json_is_not_parsed(platform: Platform) -> None:
    agent = polled(platform)
    headers = {"Content-Type": "text/plain"}
    standard = platform.call("POST", f"/agents/{agent.id}", data=b"\xff{", headers=headers)
    assert (standard.status_code, problem_of(standard)["code"]) == (200, -32005)
    path = platform.call("POST", f"/workspaces/{agent.id}/a2a", data=b"\xff{", headers=headers)
    assert (path.status_code, problem_of(path)["code"]) == (400, -32005)


# - version check Major.Minor, header and query, empty = 0.3, table of section 4


@pytest.mark.parametrize(
    ("version", "method", "standard", "lenient"),
    [
        ("1.0", "SendMessage", None, None),
        ("1.0", "message/send", -32601, -32601),
        ("", "message/send", None, None),
        ("", "SendMessage", -32009, None),
        ("0.3", "SendMessage", -32601, -32601),
        ("1.0.3", "SendMessage", None, None),
        ("1.7", "SendMessage", -32009, -32009),
        ("99.0", "message/send", -32009, -32009),
    ],
)
def test_the_table_of_versions(
    platform: Platform, version: str, method: str, standard: int | None, lenient: int | None
) -> None:
    agent = polled(platform)
    message = {"messageId": "m", "role": "user", "parts": [{"text": "x"}]}
    configuration = {"returnImmediately": True, "blocking": False}
    params = {"message": message, "configuration": configuration}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    for path, expected in ((f"/agents/{agent.id}", standard), (f"/workspaces/{agent.id}/a2a", lenient)):
        by_header = platform.call(
            "POST", path, json=body, headers={"A2A-Version": version} if version else {}
        )
        by_query = platform.call("POST", f"{path}?A2A-Version={version}", json=body)
        for answer in (by_header, by_query):
            assert answer.json().get("error", {}).get("code") == expected, answer.text


# - contextId inferred, mismatch rejected, never a foreign one in events; three follow-ups by taskId alone


@pytest.mark.parametrize(("binding", "dialect"), EVERY_FRAMING)
def test_a_task_keeps_its_context_over_three_follow_ups(
    patient: Platform, binding: Any, dialect: Any
) -> None:
    with pushed(patient) as agent:
        caller = agent.caller(binding, dialect)
        frames = caller.stream(caller.message("one", "input-required-1", contextId="mine"))
        task_id = frames[0].event["task"]["id"]
        for number in (2, 3, 4):
            more = caller.message("more", f"input-required-{number}", taskId=task_id)
            frames += caller.stream(more)
        assert contexts_in([frame.event for frame in frames]) == {"mine"}
        with pytest.raises(Problem) as refused:
            caller.send(caller.message(taskId=task_id, contextId="another"))
        assert refused.value.reason == "INVALID_PARAMS"
        done = caller.send(caller.message("done", taskId=task_id))["task"]
        assert (done["id"], contexts_in(done)) == (task_id, {"mine"})
        assert done["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(("binding", "dialect"), EVERY_FRAMING)
def test_an_agent_knows_the_context_that_a_caller_was_told_at_once(
    platform: Platform, binding: Any, dialect: Any
) -> None:
    at_once: dict[str, Any] = ASYNC if dialect == "1.0" else {"configuration": {"blocking": False}}
    with pushed(platform) as agent:
        caller = agent.caller(binding, dialect)
        told = caller.send(caller.message("one", "task-1"), **at_once)["task"]["contextId"]
        caller.send(caller.message("two", "task-2", contextId=told))
        bodies = [json.loads(request.body) for request in agent.agent.received]
        contexts = [body["params"]["message"]["contextId"] for body in bodies if "message" in body["params"]]
        assert contexts == [told, told]


# - three messages with one messageId all stay in history; the platform path attaches an identical re-POST


def test_a_message_id_is_no_key_at_the_standard_door(platform: Platform) -> None:
    agent = polled(platform)
    caller = agent.caller()
    task_id = caller.send(caller.message("same", "m"), **ASYNC)["task"]["id"]
    for _ in range(2):
        agent.answer("and?", "input-required")
        caller.send(caller.message("same", "m", taskId=task_id), **ASYNC)
    said = [one for one in caller.get(task_id)["history"] if one["messageId"] == "m"]
    assert len(said) == 3


def test_the_platform_path_attaches_an_identical_repeat(platform: Platform) -> None:
    agent = polled(platform)
    caller = agent.caller("platform")
    tasks = {caller.send(caller.message("same", "m"), **ASYNC)["task"]["id"] for _ in range(3)}
    assert len(tasks) == 1


# - trailing slash both ways; REST subscribe GET and POST; no redirects


@pytest.mark.parametrize("slash", ["", "/"])
def test_slashes_and_verbs_make_no_difference(platform: Platform, slash: str) -> None:
    agent = polled(platform)
    caller = agent.caller("rest")
    task_id = caller.send(caller.message(), **ASYNC)["task"]["id"]
    base = f"/agents/{agent.id}"
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task_id}}
    answers = [
        platform.call("POST", base + slash, json=rpc, headers=NEW, allow_redirects=False),
        platform.call("GET", f"{base}/tasks/{task_id}{slash}", headers=NEW, allow_redirects=False),
        platform.call("GET", f"{base}/tasks{slash}", headers=NEW, allow_redirects=False),
        platform.call("GET", f"{base}/.well-known/agent-card.json{slash}", allow_redirects=False),
    ]
    assert [answer.status_code for answer in answers] == [200] * 4
    for verb in ("GET", "POST"):
        for path, headers in ((f"{base}/tasks", NEW), (f"{base}/v1/tasks", {})):
            url = f"{path}/{task_id}:subscribe{slash}"
            with platform.call(verb, url, headers=headers, stream=True, allow_redirects=False) as answer:
                assert answer.headers["Content-Type"] == "text/event-stream"
                assert next(answer.iter_lines(chunk_size=None)) == b"id: 1"


# - card ETag, Cache-Control, Last-Modified, HEAD, 304


def test_a_card_can_be_kept(platform: Platform) -> None:
    agent = polled(platform)
    path = f"/agents/{agent.id}/.well-known/agent-card.json"
    card = platform.call("GET", path)
    assert all(name in card.headers for name in ("ETag", "Cache-Control", "Last-Modified"))
    head = platform.call("HEAD", path)
    assert (head.status_code, head.content, head.headers["ETag"]) == (200, b"", card.headers["ETag"])
    kept = platform.call("GET", path, headers={"If-None-Match": card.headers["ETag"]})
    assert (kept.status_code, kept.content) == (304, b"")


# - extended card needs a credential


def test_the_extended_card_needs_a_credential(platform: Platform) -> None:
    agent = polled(platform)
    base = f"/agents/{agent.id}"
    assert platform.call("GET", f"{base}/extendedAgentCard", headers=NEW).status_code == 200
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
    for answer in (
        platform.call("GET", f"{base}/extendedAgentCard", "", headers=NEW),
        platform.call("GET", f"{base}/v1/card", ""),
        platform.call("POST", base, "", json=rpc, headers=NEW),
    ):
        assert (answer.status_code, answer.headers["WWW-Authenticate"][:6]) == (401, "Bearer")


# - extensions echoed and enforced


@pytest.mark.parametrize(("binding", "dialect"), EVERY_FRAMING)
def test_extensions_are_echoed_and_enforced(platform: Platform, binding: Any, dialect: Any) -> None:
    listed = [{"uri": "https://x.example/must", "required": True}, {"uri": "https://x.example/may"}]
    agent = polled(platform, capabilities={"extensions": listed})
    caller = agent.caller(binding, dialect)
    with pytest.raises(Problem) as refused:
        caller.send(caller.message(), **ASYNC)
    assert "https://x.example/must" in refused.value.error["message"]
    assert refused.value.reason == "EXTENSION_SUPPORT_REQUIRED"
    asked = {"A2A-Extensions": "https://x.example/must,https://x.example/unknown"}
    params = {"message": caller.message(), **ASYNC}
    unary = caller.ask(operations.SEND, params, headers=asked)
    with caller.ask(operations.STREAM, {"message": caller.message()}, headers=asked, stream=True) as stream:
        for answer in (unary, stream):
            assert answer.headers["A2A-Extensions"] == "https://x.example/must"


# - tenant in path, body, params; part of the storage key


def test_a_tenant_is_part_of_a_task_s_name(platform: Platform) -> None:
    agent = polled(platform)
    own = {
        tenant: Caller(platform, agent.id, "rest", "1.0", tenant=tenant) for tenant in ("", "acme", "other")
    }
    sent = {tenant: caller.send(caller.message(), **ASYNC)["task"]["id"] for tenant, caller in own.items()}
    for tenant, caller in own.items():
        assert [task["id"] for task in caller.list()["tasks"]] == [sent[tenant]]
        over_rpc = Caller(platform, agent.id, "rpc", "1.0", tenant=tenant)
        assert over_rpc.get(sent[tenant])["id"] == sent[tenant]
        for other in set(own) - {tenant}:
            with pytest.raises(Problem) as refused:
                caller.get(sent[other])
            assert refused.value.reason == "TASK_NOT_FOUND"


# - push: guard at registration, the same in every framing


@pytest.mark.parametrize(("binding", "dialect"), EVERY_FRAMING)
def test_push_configs_in_every_framing(platform: Platform, binding: Any, dialect: Any) -> None:
    agent = polled(platform)
    caller = agent.caller(binding, dialect)
    task_id = caller.send(caller.message(), **ASYNC)["task"]["id"]
    hook = {"url": "https://93.184.215.14/hook", "id": "c1", "token": "t"}
    modern = dialect == "1.0"
    task = {"taskId" if modern else "id": task_id}
    one = {**task, "id" if modern else "pushNotificationConfigId": "c1"}
    new = (
        {"taskId": task_id, **hook}
        if modern
        else {**task, **task_named(task_id), "pushNotificationConfig": hook}
    )
    if binding == "rest" and not modern:
        new = {
            **task,
            "parent": f"tasks/{task_id}",
            "configId": "c1",
            "config": {"pushNotificationConfig": hook},
        }
    made = caller.result(operations.PUSH_CREATE, new)
    assert hook.items() <= (made if modern else made["pushNotificationConfig"]).items()
    assert caller.result(operations.PUSH_GET, one) == made
    listed = caller.result(operations.PUSH_LIST, task)
    assert (listed["configs"] if isinstance(listed, dict) else listed) == [made]
    for _ in range(2):
        caller.result(operations.PUSH_DELETE, one)
    with pytest.raises(Problem) as refused:
        caller.result(operations.PUSH_GET, one)
    assert refused.value.reason == "TASK_NOT_FOUND"


def task_named(task_id: str) -> dict[str, str]:
    return {"taskId": task_id}


def test_a_push_url_inside_our_walls_is_refused_when_it_is_named(platform: Platform) -> None:
    agent = polled(platform)
    caller = agent.caller()
    inside = {"url": "http://169.254.169.254/latest"}
    with pytest.raises(Problem) as refused:
        caller.send(caller.message(), configuration={"taskPushNotificationConfig": inside})
    assert refused.value.reason == "INVALID_PARAMS"
    assert caller.list()["totalSize"] == 0


# - 5000-event backlog on a stalled subscriber: nothing lost, other subscribers unaffected


def test_a_reader_that_stalls_loses_nothing_and_slows_nobody(platform: Platform) -> None:
    many = 5000
    prefixes = {**behaviours.PREFIXES, "many": f"chunked:{many}", "slow": "slow:1"}
    with pushed(platform, agent=ScriptedAgent(prefixes)) as agent:
        caller = agent.caller()
        params = {"message": caller.message("x", "many-1")}
        stalled = raw_stream(caller, params)
        begun = read_until(stalled, b'"task":{"id":"')
        task_id = begun.split(b'"task":{"id":"')[1].split(b'"')[0].decode()
        with caller.subscribing(task_id) as frames:
            quick = list(frames)
        assert quick[-1].event["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        rest = begun + read_until(stalled, b"TASK_STATE_COMPLETED")
        seen = [int(line[4:]) for line in rest.split(b"\n") if line.startswith(b"id: ")]
        stalled.close()
        assert seen == list(range(1, many + 4))


def raw_stream(caller: Caller, params: dict[str, Any]) -> socket.socket:
    """A stream whose bytes nobody reads until somebody does."""
    where = urlsplit(caller.platform.url)
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": params}
    raw = json.dumps(body).encode()
    lines = (
        f"POST {caller.base} HTTP/1.1",
        f"Host: {where.netloc}",
        *(f"{name}: {value}" for name, value in caller.platform.headers().items()),
        "A2A-Version: 1.0",
        "Content-Type: application/json",
        f"Content-Length: {len(raw)}",
    )
    connection = socket.create_connection((where.hostname or "", where.port or 0), timeout=30)
    connection.sendall("\r\n".join([*lines, "", ""]).encode() + raw)
    return connection


def read_until(connection: socket.socket, mark: bytes) -> bytes:
    read = b""
    while mark not in read:
        chunk = connection.recv(65536)
        assert chunk, "the stream ended too early"
        read += chunk
    return read


# - keep-alive lines, gapless `id:` lines over several messages of one task, no number spent on the mailbox


def test_a_quiet_stream_says_that_it_lives(patched: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_streams, "QUIET_SECONDS", 0.05)
    platform = patched()
    agent = polled(platform)
    caller = agent.caller()
    with caller.ask(operations.STREAM, {"message": caller.message()}, stream=True) as answer:
        lines = answer.iter_lines(chunk_size=None)
        assert b": keep-alive" in [next(lines) for _ in range(8)]
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Accel-Buffering"] == "no"
        assert "Content-Encoding" not in answer.headers


@pytest.mark.parametrize(("binding", "dialect"), EVERY_FRAMING)
def test_numbers_have_no_gap_over_the_messages_of_a_task(
    platform: Platform, binding: Any, dialect: Any
) -> None:
    with pushed(platform) as agent:
        caller = agent.caller(binding, dialect)
        first = caller.stream(caller.message("one", "input-required-1"))
        task_id = first[0].event["task"]["id"]
        assert numbers(first) == list(range(1, len(first) + 1))
        second = caller.stream(caller.message("two", taskId=task_id))
        expected = list(range(len(first), len(first) + len(second)))
        assert numbers(second) in (expected, [number + 1 for number in expected])
        assert second[0].kind == "task"
        replayed = caller.subscribe(task_id, 1)
        assert numbers(replayed) == list(range(1, second[-1].id or 0 + 1)) + [second[-1].id]


def test_retries_and_leases_of_a_message_spend_no_number(platform: Platform) -> None:
    agent = polled(platform)
    caller = agent.caller()
    with caller.streaming(caller.message()) as frames:
        item = agent.lease()
        release = {"lease_token": item["lease"]["token"]}
        path = f"/workspaces/{agent.id}/inbox/{item['message_id']}/release"
        platform.ok("POST", path, agent.token, json=release)
        agent.answer("done")
        seen = list(frames)
    assert numbers(seen) == list(range(1, len(seen) + 1))
    kinds = [frame.kind for frame in seen]
    assert (kinds[0], set(kinds[1:])) == ("task", {"statusUpdate"})
    states = [frame.event["statusUpdate"]["status"]["state"] for frame in seen[1:]]
    assert states == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]


@pytest.mark.parametrize("last_seen", ["x", "-1", "1.5", "99"])
def test_a_cursor_that_no_event_has_is_refused(platform: Platform, last_seen: str) -> None:
    agent = polled(platform)
    caller = agent.caller()
    task_id = caller.send(caller.message(), **ASYNC)["task"]["id"]
    with pytest.raises(Problem) as refused:
        caller.subscribe(task_id, last_seen)
    assert refused.value.reason == "INVALID_PARAMS"


@pytest.mark.both_engines
@pytest.mark.parametrize("engine", ["postgres"], indirect=True)  # one process has the whole of a SQLite file
def test_another_replica_replays_and_goes_on(replicated: Start) -> None:
    here, there = replicated(), replicated()
    agent = polled(here)
    sender = agent.caller()
    elsewhere = Caller(there, agent.id)
    with sender.streaming(sender.message()) as frames:
        first = next(frames)
        with elsewhere.subscribing(first.event["task"]["id"], 0) as again:
            assert next(again).event == first.event
            agent.answer("done")
            rest, told = list(frames), list(again)
    assert [(one.id, one.event) for one in told] == [(one.id, one.event) for one in rest]


# - ErrorInfo arrays on every error, 0.3 and gateway-made included


@pytest.mark.parametrize(("binding", "dialect"), EVERY_FRAMING)
def test_every_error_has_typed_details(platform: Platform, binding: Any, dialect: Any) -> None:
    agent = polled(platform)
    caller = agent.caller(binding, dialect)
    nobody = Caller(platform, agent.id, binding, dialect, token="made-up")
    asked: list[tuple[Caller, Operation, dict[str, Any], str]] = [
        (caller, operations.GET, {"id": "none"}, "TASK_NOT_FOUND"),
        (caller, operations.CANCEL, {"id": "none"}, "TASK_NOT_FOUND"),
        (caller, operations.SEND, {"message": {}}, "INVALID_PARAMS"),
        (nobody, operations.SEND, {"message": caller.message()}, "INVALID_TOKEN"),
    ]
    for who, operation, params, reason in asked:
        with pytest.raises(Problem) as refused:
            who.result(operation, params)
        info = refused.value.info
        assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
        assert info["reason"] == reason
        ours = reason == "INVALID_TOKEN"
        assert info["domain"] == ("molecule.ai" if ours else "a2a-protocol.org")
        assert not ours or info["metadata"]["code"] == "invalid-token"


# - owner check on get, list, cancel, subscribe, push: strangers get -32001


def test_for_strangers_a_task_does_not_exist(platform: Platform) -> None:
    lead = platform.create("lead")
    agent = polled(platform, lead["id"])
    sibling = platform.create("sibling", lead["id"])["connection"]["auth_token"]
    owner = platform.create("owner", lead["id"])["connection"]["auth_token"]
    sender = agent.caller(token=owner)
    task_id = sender.send(sender.message(), **ASYNC)["task"]["id"]
    for binding, dialect in EVERY_FRAMING:
        stranger = agent.caller(binding, dialect, sibling)
        name = "taskId" if dialect == "1.0" else "id"
        for operation, params in (
            (operations.GET, {"id": task_id}),
            (operations.CANCEL, {"id": task_id}),
            (operations.SUBSCRIBE, {"id": task_id}),
            (operations.PUSH_LIST, {name: task_id}),
            (operations.SEND, {"message": stranger.message(taskId=task_id)}),
        ):
            with pytest.raises(Problem) as refused:
                stranger.result(operation, params)
            assert refused.value.reason == "TASK_NOT_FOUND", operation.name
        if dialect == "1.0":
            assert stranger.list()["tasks"] == []
    for known in (sender, agent.caller(token=agent.token), agent.caller()):
        assert known.get(task_id)["id"] == task_id
    assert [task["id"] for task in sender.list()["tasks"]] == [task_id]
    assert agent.caller().list()["tasks"] == []


def test_who_may_only_read_the_organisation_may_not_cancel(platform: Platform) -> None:
    agent = polled(platform)
    caller = agent.caller()
    task_id = caller.send(caller.message(), **ASYNC)["task"]["id"]
    minted = platform.ok("POST", "/org/tokens", json={"scopes": ["org.read"]})["auth_token"]
    reader = agent.caller(token=minted)
    assert reader.get(task_id)["id"] == task_id
    with pytest.raises(Problem) as refused:
        reader.cancel(task_id)
    assert refused.value.reason == "TASK_NOT_FOUND"


# - disconnect does not cancel; 500 parallel sends do not wedge the card route


def test_going_away_cancels_nothing(platform: Platform) -> None:
    agent = polled(platform)
    caller = agent.caller()
    with caller.streaming(caller.message()) as frames:
        task_id = next(frames).event["task"]["id"]
    agent.answer("still here")
    assert caller.get(task_id)["status"]["state"] == "TASK_STATE_COMPLETED"


def test_many_sends_at_once_do_not_wedge_the_card(platform: Platform) -> None:
    with pushed(platform) as agent:
        caller = agent.caller()
        card = f"/agents/{agent.id}/.well-known/agent-card.json"
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            sent = [pool.submit(caller.send, caller.message("x", f"message-{n}")) for n in range(500)]
            cards = [platform.call("GET", card, timeout=30).status_code for _ in range(20)]
            assert cards == [200] * 20
            assert all("message" in one.result() for one in sent)


# - input-required and auth-required answers settle the row as answered; the next message continues the task


@pytest.mark.parametrize("state", ["input-required", "auth-required"])
@pytest.mark.parametrize("kind", ["polled", "pushed"])
def test_a_question_settles_the_row_and_leaves_the_task_open(
    platform: Platform, state: str, kind: str
) -> None:
    with pushed(platform) as with_url:
        by_mail = polled(platform)
        agent = with_url if kind == "pushed" else by_mail
        caller = agent.caller()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            sending = pool.submit(caller.send, caller.message("x", f"{state}-1"))
            if kind == "polled":
                by_mail.answer("what?", state)
            task = sending.result(15)["task"]
        assert task["status"]["state"] == f"TASK_STATE_{state.upper().replace('-', '_')}"
        again = caller.send(caller.message("this", taskId=task["id"]), **ASYNC)["task"]
        assert (again["id"], again["contextId"]) == (task["id"], task["contextId"])
        if kind == "polled":
            by_mail.answer("done")
        replay = caller.subscribe(task["id"], 0)
        assert numbers(replay) == list(range(1, len(replay) + 1))
        assert "TASK_STATE_COMPLETED" in json.dumps(replay[-1].event)


# - unknown members, integers above 2^53, explicit `false` survive the gateway


@pytest.mark.parametrize(("binding", "dialect"), EVERY_FRAMING)
def test_what_we_do_not_know_passes_unchanged(platform: Platform, binding: Any, dialect: Any) -> None:
    odd = {"big": 2**60 + 1, "no": False, "none": None, "deep": [{"x": [1, 2.5]}]}
    with pushed(platform) as agent:
        caller = agent.caller(binding, dialect)
        message = caller.message("x", "message-1", metadata=odd, unheard={"of": 2**63})
        caller.send(message)
        got = json.loads(agent.agent.received[-1].body)["params"]["message"]
        assert (got["metadata"], got["unheard"]) == (odd, {"of": 2**63})


# - caller's bearer never appears in any request to an agent


@pytest.mark.parametrize(("binding", "dialect"), EVERY_FRAMING)
def test_the_caller_s_token_goes_no_further(platform: Platform, binding: Any, dialect: Any) -> None:
    lead = platform.create("lead")
    with pushed(platform, lead["id"]) as agent:
        token = platform.create("sender", lead["id"])["connection"]["auth_token"]
        caller = agent.caller(binding, dialect, token)
        caller.send(caller.message())
        caller.stream(caller.message())
        seen = repr(list(agent.agent.received))
        assert len(agent.agent.received) >= 2
        assert token not in seen
        assert platform.admin_token not in seen
