"""The standard A2A base: strict, both bindings, both dialects; what is asked and what is refused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.rows import each_row

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Answer, Visitor
    from packages.platform.tests.web.conftest import MisbehavingAgent

NEW = {"a2a-version": "1.0"}
UUID = "11111111-1111-4111-8111-111111111111"


def message(said: str = "hello", message_id: str = "m1", **more: Any) -> dict[str, Any]:
    return {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": said}], **more}


def rpc(method: str, params: Any = None, rpc_id: Any = 7) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": rpc_id, "method": method, "params": params or {}}


def send(said: str = "hello", **more: Any) -> dict[str, Any]:
    return rpc(
        "SendMessage", {"message": message(said, **more), "configuration": {"returnImmediately": True}}
    )


async def ask(
    visit: Visitor, agent: str, body: Any, headers: dict[str, str] | None = None, **more: Any
) -> Any:
    """The body of an answer at the root of the base."""
    answer = await visit(
        "POST", f"/agents/{agent}", body, headers=NEW if headers is None else headers, **more
    )
    assert answer.status == 200, answer.raw
    return answer.json


def code_of(answer: Answer) -> tuple[int, str]:
    """Status, and reason of the first detail, in either binding."""
    error = answer.json["error"]
    details = error.get("data", error.get("details"))
    assert details[0]["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    return answer.status, details[0]["reason"]


# Envelopes and versions


@each_row(
    ("body", "code", "rpc_id"),
    [
        (b"{", -32700, None),
        (b"[]", -32600, None),
        ([rpc("GetTask", {"id": "x"})], -32600, None),
        ({"jsonrpc": "2.0", "method": "SendMessage", "params": {}}, -32602, None),
        ({"jsonrpc": "2.0", "method": "GetTask", "params": {"id": "none"}}, -32600, None),
        ({"id": 7, "method": "SendMessage", "params": {}}, -32600, 7),
        (rpc("Nonsense"), -32601, 7),
        (rpc("message/send"), -32601, 7),
        (rpc("SendMessage", {}), -32602, 7),
        (rpc("SendMessage", {"message": message(message_id="")}), -32602, 7),
        (rpc("SendMessage", {"message": message() | {"parts": []}}), -32602, 7),
        (rpc("GetTask", {}), -32602, 7),
        (rpc("GetTask", {"id": "none"}), -32001, 7),
        (rpc("GetTask", {"id": "none", "historyLength": -1}), -32602, 7),
        (rpc("CancelTask", {"id": "none"}), -32001, 7),
        (rpc("SubscribeToTask", {"id": "none"}), -32001, 7),
        (rpc("ListTaskPushNotificationConfigs", {"taskId": "none"}), -32001, 7),
        (rpc("CreateTaskPushNotificationConfig", {"taskId": "none"}), -32602, 7),
        (rpc("ListTasks", {"pageSize": 101}), -32602, 7),
        (rpc("ListTasks", {"status": "DONE"}), -32602, 7),
        (rpc("ListTasks", {"pageToken": "made up"}), -32602, 7),
    ],
)
async def test_what_is_wrong_with_a_request_is_an_error_of_the_protocol_and_a_success_of_http(
    visit: Visitor, body: Any, code: int, rpc_id: Any
) -> None:
    ada, _ = await visit.agent()
    answer = await ask(visit, ada, body)
    assert (answer["error"]["code"], answer["id"]) == (code, rpc_id)
    assert set(answer) == {"jsonrpc", "id", "error"}
    assert answer["error"]["data"][0]["domain"] == "a2a-protocol.org"


async def test_every_wrong_field_is_named(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    body = rpc("SendMessage", {"message": {"parts": [{}]}})
    [_, bad_request] = (await ask(visit, ada, body))["error"]["data"]
    named = [violation["field"] for violation in bad_request["fieldViolations"]]
    assert named == ["message.messageId", "message.role", "message.parts[0]"]


@each_row(
    ("version", "method", "code"),
    [
        ("1.7", "SendMessage", -32009),
        ("99.0", "message/send", -32009),
        ("nonsense", "SendMessage", -32009),
        ("", "SendMessage", -32009),
        ("1.0", "message/send", -32601),
        ("0.3", "SendMessage", -32601),
        ("1.0.3", "SendMessage", None),
        ("0.3", "message/send", None),
        ("", "message/send", None),
    ],
)
@each_row("place", ["header", "query"])
async def test_the_version_decides_by_major_and_minor_in_the_header_or_the_query(
    visit: Visitor, version: str, method: str, code: int | None, place: str
) -> None:
    ada, _ = await visit.agent()
    body = rpc(
        method, {"message": message(), "configuration": {"returnImmediately": True, "blocking": False}}
    )
    query = f"?A2A-Version={version}" if place == "query" else ""
    headers = {"a2a-version": version} if place == "header" else {}
    answer = (await visit("POST", f"/agents/{ada}{query}", body, headers=headers)).json
    assert answer.get("error", {}).get("code") == code


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "multipart/form-data; boundary=x"])
async def test_a_body_that_says_it_is_no_json_is_not_read(visit: Visitor, content_type: str) -> None:
    ada, _ = await visit.agent()
    answer = await ask(visit, ada, b"\xff not json", headers=NEW | {"content-type": content_type})
    assert answer["error"]["code"] == -32005
    rest = await visit(
        "POST", f"/agents/{ada}/message:send", b"\xff", headers=NEW | {"content-type": content_type}
    )
    assert code_of(rest) == (400, "CONTENT_TYPE_NOT_SUPPORTED")


@pytest.mark.parametrize("slash", ["", "/"])
async def test_a_trailing_slash_makes_no_difference(visit: Visitor, slash: str) -> None:
    ada, _ = await visit.agent()
    answer = await visit("POST", f"/agents/{ada}{slash}", send(), headers=NEW)
    assert answer.status == 200
    task = answer.json["result"]["task"]
    got = await visit("GET", f"/agents/{ada}/tasks/{task['id']}{slash}", headers=NEW)
    assert (got.status, got.json) == (200, task)


# Refusals of the gateway


@pytest.mark.parametrize("path", ["", "/message:send", "/v1/message:send", "/tasks", "/acme/tasks/x:cancel"])
async def test_without_a_credential_nothing_is_served(visit: Visitor, path: str) -> None:
    ada, _ = await visit.agent()
    answer = await visit("GET" if path == "/tasks" else "POST", f"/agents/{ada}{path}", {}, token=None)
    assert code_of(answer) == (401, "UNAUTHENTICATED")
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_refusal_keeps_the_request_s_id_and_adds_nothing_beside_the_error(visit: Visitor) -> None:
    lead, _ = await visit.agent("Lead")
    ada, _ = await visit.workspace("Ada", parent_id=lead)
    other, _ = await visit.agent("Other")
    _, stranger = await visit.workspace("Leaf", parent_id=other)
    answer = await visit("POST", f"/agents/{ada}", send(), headers=NEW, token=stranger)
    assert code_of(answer) == (403, "HIERARCHY_DENIED")
    assert (answer.json["id"], set(answer.json)) == (7, {"jsonrpc", "id", "error"})
    metadata = answer.json["error"]["data"][0]["metadata"]
    assert (metadata["code"], metadata["rule"]) == ("hierarchy-denied", "denied")
    assert all(isinstance(value, str) for value in metadata.values())


async def test_an_unknown_and_a_removed_agent_are_told_apart(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    await visit("DELETE", f"/workspaces/{ada}?confirm=true")
    for path in ("", "/tasks"):
        method = "GET" if path else "POST"
        gone = await visit(method, f"/agents/{ada}{path}", send(), headers=NEW)
        unknown = await visit(method, f"/agents/{UUID}{path}", send(), headers=NEW)
        assert (code_of(gone)[0], code_of(unknown)[0]) == (410, 404)


@pytest.mark.parametrize("path", ["/v1/tasks", "/nothing", "/tasks/a/b/c/d", "/v1/extendedAgentCard"])
async def test_a_path_that_a2a_does_not_have_is_not_found_in_its_own_form(visit: Visitor, path: str) -> None:
    ada, _ = await visit.agent()
    assert code_of(await visit("GET", f"/agents/{ada}{path}", headers=NEW)) == (404, "NOT_FOUND")


async def test_a_body_over_the_limit_is_refused_with_the_limit(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    announced = NEW | {"content-length": str(17 * 1024 * 1024)}
    answer = await visit("POST", f"/agents/{ada}/message:send", b"{}", headers=announced)
    assert code_of(answer) == (413, "PAYLOAD_TOO_LARGE")
    assert answer.json["error"]["details"][0]["metadata"]["limit_bytes"].isdecimal()


async def test_what_the_gateway_could_not_do_shows_in_the_status_of_both_bindings(
    visit: Visitor,
) -> None:
    ada, _ = await visit.agent()
    await visit("POST", f"/workspaces/{ada}/pause")
    headers = NEW | {"x-molecule-queue": "never"}
    over_rpc = await visit("POST", f"/agents/{ada}", send(), headers=headers)
    over_rest = await visit("POST", f"/agents/{ada}/message:send", {"message": message()}, headers=headers)
    for answer in (over_rpc, over_rest):
        assert code_of(answer) == (503, "PEER_UNAVAILABLE")
        assert answer.headers["retry-after"] == "30"


async def test_an_answer_that_breaks_the_protocol_is_the_protocol_s_own_error(
    visit: Visitor, agent: MisbehavingAgent
) -> None:
    ada, _ = await visit.agent(url=agent.url)
    for _ in range(2):
        agent.will_say(404, b"<html>")
    over_rpc = await visit("POST", f"/agents/{ada}", rpc("SendMessage", {"message": message()}), headers=NEW)
    assert (over_rpc.status, over_rpc.json["error"]["code"]) == (200, -32006)
    over_rest = await visit("POST", f"/agents/{ada}/message:send", {"message": message()}, headers=NEW)
    assert (over_rest.status, over_rest.json["error"]["code"]) == (500, 500)


async def test_an_agent_s_own_error_passes_with_code_message_and_data(
    visit: Visitor, agent: MisbehavingAgent
) -> None:
    ada, _ = await visit.agent(url=agent.url)
    error = {"code": -32602, "message": "no such city", "data": [{"city": "Atlantis", "n": 2**60}]}
    for _ in range(2):
        agent.will_say(200, {"jsonrpc": "2.0", "id": 1, "error": error})
    body = rpc("SendMessage", {"message": message()})
    assert (await ask(visit, ada, body))["error"] == error
    over_rest = await visit("POST", f"/agents/{ada}/message:send", {"message": message()}, headers=NEW)
    assert (over_rest.status, over_rest.json["error"]["details"]) == (400, error["data"])


# Sending


async def test_a_blocking_send_waits_for_an_agent_that_polls(visit: Visitor) -> None:
    ada, token = await visit.agent()
    asking = asyncio.ensure_future(ask(visit, ada, rpc("SendMessage", {"message": message()})))
    taken = await visit("POST", f"/workspaces/{ada}/inbox/lease", {"wait": 20}, token=token)
    [item] = taken.json["messages"]
    body = {"lease_token": item["lease"]["token"], "text": "four"}
    await visit("POST", f"/workspaces/{ada}/inbox/{item['message_id']}/answer", body, token=token)
    task = (await asyncio.wait_for(asking, 20))["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["status"]["message"]["parts"] == [{"text": "four"}]


async def test_a_send_that_does_not_wait_gets_a_task_and_nothing_beside_it(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    answer = await ask(visit, ada, send())
    assert set(answer) == {"jsonrpc", "id", "result"}
    assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"


async def test_over_http_json_an_answer_has_the_type_that_was_asked_for(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    body = {"message": message(), "configuration": {"returnImmediately": True}}
    new, plain = "application/a2a+json", "application/json"
    for accept, given in ((new, new), ("text/html, Application/A2A+JSON;q=0.9", new), ("*/*", plain)):
        answer = await visit("POST", f"/agents/{ada}/message:send", body, headers=NEW | {"accept": accept})
        assert (answer.status, answer.headers["content-type"]) == (200, given)
        assert list(answer.json) == ["task"]


async def test_the_same_message_id_is_no_key_here(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    tasks = {(await ask(visit, ada, send()))["result"]["task"]["id"] for _ in range(3)}
    assert len(tasks) == 3


async def test_an_idempotency_key_is_one_over_both_bindings(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    headers = NEW | {"idempotency-key": "k"}
    first = await visit("POST", f"/agents/{ada}", send(), headers=headers)
    rest = {"message": message(), "configuration": {"returnImmediately": True}}
    again = await visit("POST", f"/agents/{ada}/message:send", rest, headers=headers)
    assert again.json["task"]["id"] == first.json["result"]["task"]["id"]
    assert again.headers["idempotency-replayed"] == "true"
    other = await visit("POST", f"/agents/{ada}", send("another"), headers=headers)
    assert code_of(other) == (409, "IDEMPOTENCY_CONFLICT")


async def test_unknown_members_large_integers_and_false_reach_the_agent_byte_for_byte(
    visit: Visitor, agent: MisbehavingAgent
) -> None:
    ada, _ = await visit.agent(
        url=agent.url,
        agent_card={"name": "Ada", "supportedInterfaces": [_interface(agent.url)]},
    )
    inner = (
        '{"message": {"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}], "odd":\t9007199254740993,'
    )
    raw = (inner + ' "metadata":{"flag":false,"none":null}}, "later": [1.0, 1e2]}').encode()
    await visit("POST", f"/agents/{ada}/message:send", raw, headers=NEW)
    whole = b'{"jsonrpc":"2.0","id":1, "method":"SendMessage","params":' + raw + b"}"
    await visit("POST", f"/agents/{ada}", whole, headers=NEW)
    over_rest, over_rpc = agent.received
    assert raw in over_rest.body
    assert over_rest.json["method"] == "SendMessage"
    assert over_rpc.body == whole


def _interface(url: str) -> dict[str, str]:
    return {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}


async def test_an_inline_push_config_is_kept_here_and_taken_out_of_what_the_agent_gets(
    visit: Visitor,
) -> None:
    ada, token = await visit.agent()
    body = send()
    body["params"]["configuration"]["taskPushNotificationConfig"] = {
        "url": "https://93.184.215.14/hook",
        "token": "hush",
    }
    task = (await ask(visit, ada, body))["result"]["task"]
    listed = await ask(visit, ada, rpc("ListTaskPushNotificationConfigs", {"taskId": task["id"]}))
    [config] = listed["result"]["configs"]
    assert (config["url"], config["taskId"]) == ("https://93.184.215.14/hook", task["id"])
    inbox = (await visit("GET", f"/workspaces/{ada}/inbox", token=token)).raw
    assert b"hush" not in inbox


# Following up


async def test_a_message_may_go_on_with_a_task_that_is_open_and_known(visit: Visitor) -> None:
    ada, token = await visit.agent()
    first = (await ask(visit, ada, send()))["result"]["task"]
    unknown = await ask(visit, ada, send(taskId="nobody's"))
    assert unknown["error"]["code"] == -32001
    mismatch = await ask(visit, ada, send(taskId=first["id"], contextId="another"))
    assert mismatch["error"]["code"] == -32602
    leased = await visit("POST", f"/workspaces/{ada}/inbox/lease", {}, token=token)
    [item] = leased.json["messages"]
    answer = {"lease_token": item["lease"]["token"], "text": "which?", "state": "input-required"}
    await visit("POST", f"/workspaces/{ada}/inbox/{item['message_id']}/answer", answer, token=token)
    again = (await ask(visit, ada, send("this", taskId=first["id"])))["result"]["task"]
    assert (again["id"], again["contextId"]) == (first["id"], first["contextId"])
    await ask(visit, ada, rpc("CancelTask", {"id": first["id"]}))
    over = await ask(visit, ada, send(taskId=first["id"]))
    assert over["error"]["code"] == -32004


# Tenants


async def test_tenants_do_not_see_each_other_s_tasks(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    body = {"message": message(), "configuration": {"returnImmediately": True}}
    in_path = (await visit("POST", f"/agents/{ada}/acme/message:send", body, headers=NEW)).json["task"]["id"]
    in_body = (await ask(visit, ada, rpc("SendMessage", {**body, "tenant": "acme"})))["result"]["task"]["id"]
    for task_id in (in_path, in_body):
        assert (await visit("GET", f"/agents/{ada}/acme/tasks/{task_id}", headers=NEW)).status == 200
        assert (await visit("GET", f"/agents/{ada}/tasks/{task_id}?tenant=acme", headers=NEW)).status == 200
        assert (await visit("GET", f"/agents/{ada}/other/tasks/{task_id}", headers=NEW)).status == 404
        assert (await ask(visit, ada, rpc("GetTask", {"id": task_id})))["error"]["code"] == -32001
    listed = (await visit("GET", f"/agents/{ada}/acme/tasks", headers=NEW)).json
    assert {task["id"] for task in listed["tasks"]} == {in_path, in_body}
    assert (await ask(visit, ada, rpc("ListTasks")))["result"]["totalSize"] == 0


async def test_path_and_body_may_not_name_different_tenants(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    body = {"message": message(), "tenant": "other"}
    answer = await visit("POST", f"/agents/{ada}/acme/message:send", body, headers=NEW)
    assert code_of(answer) == (400, "INVALID_PARAMS")


@pytest.mark.parametrize("tenant", ["v1", "tasks", ".well-known", "extendedAgentCard", "a:b", "a/b"])
async def test_words_of_the_protocol_are_no_tenants(visit: Visitor, tenant: str) -> None:
    ada, _ = await visit.agent()
    answer = await ask(visit, ada, rpc("ListTasks", {"tenant": tenant}))
    assert answer["error"]["code"] == -32602


# Extensions


def _extended(required: bool) -> dict[str, Any]:
    listed = [{"uri": "https://x.example/a", "required": required}, {"uri": "https://x.example/b"}]
    return {"name": "Ada", "capabilities": {"extensions": listed}}


@pytest.mark.parametrize("header", ["a2a-extensions", "x-a2a-extensions"])
async def test_extensions_that_both_sides_know_are_echoed(visit: Visitor, header: str) -> None:
    ada, _ = await visit.agent(agent_card=_extended(False))
    headers = NEW | {header: "https://x.example/b, https://x.example/unknown"}
    answer = await visit("POST", f"/agents/{ada}", send(), headers=headers)
    assert answer.headers[header] == "https://x.example/b"
    without = await visit("POST", f"/agents/{ada}", send(), headers=NEW)
    assert header not in without.headers


async def test_a_required_extension_must_be_asked_for(visit: Visitor) -> None:
    ada, _ = await visit.agent(agent_card=_extended(True))
    refused = await ask(visit, ada, send())
    assert refused["error"]["code"] == -32008
    assert "https://x.example/a" in refused["error"]["message"]
    old = rpc("message/send", {"message": message()})
    assert (await ask(visit, ada, old, headers={}))["error"]["code"] == -32603
    asked = await ask(visit, ada, send(), headers=NEW | {"a2a-extensions": "https://x.example/a"})
    assert "result" in asked


# Lists


async def test_tasks_are_listed_page_by_page_with_the_newest_status_first(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    sent = [(await ask(visit, ada, send(str(n))))["result"]["task"]["id"] for n in range(5)]
    seen: list[str] = []
    token = ""
    for size in (2, 2, 1):
        page = (await ask(visit, ada, rpc("ListTasks", {"pageSize": 2, "pageToken": token})))["result"]
        assert (len(page["tasks"]), page["pageSize"], page["totalSize"]) == (size, 2, 5)
        seen += [task["id"] for task in page["tasks"]]
        token = page["nextPageToken"]
    assert (token, seen) == ("", sent[::-1])


async def test_a_page_s_token_is_for_its_caller_and_its_list_alone(visit: Visitor) -> None:
    ada, agent_token = await visit.agent()
    for n in range(2):
        await ask(visit, ada, send(str(n)))
    page = (await ask(visit, ada, rpc("ListTasks", {"pageSize": 1})))["result"]
    token = page["nextPageToken"]
    context = page["tasks"][0]["contextId"]
    elsewhere = await ask(visit, ada, rpc("ListTasks", {"pageToken": token, "contextId": context}))
    somebody = await ask(visit, ada, rpc("ListTasks", {"pageToken": token}), token=agent_token)
    forged = await ask(visit, ada, rpc("ListTasks", {"pageToken": token[:-2] + "AA"}))
    assert [answer["error"]["code"] for answer in (elsewhere, somebody, forged)] == [-32602] * 3


async def test_a_list_is_narrowed_by_context_state_and_time_in_both_bindings(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    one = (await ask(visit, ada, send()))["result"]["task"]
    two = (await ask(visit, ada, send()))["result"]["task"]
    await ask(visit, ada, rpc("CancelTask", {"id": two["id"]}))
    for filters, expected in (
        ({"contextId": one["contextId"]}, [one["id"]]),
        ({"status": "TASK_STATE_CANCELED"}, [two["id"]]),
        ({"status": "TASK_STATE_SUBMITTED", "contextId": two["contextId"]}, []),
        ({"statusTimestampAfter": "2999-01-01T00:00:00Z"}, []),
        ({"statusTimestampAfter": "2001-01-01T00:00:00+02:00"}, [two["id"], one["id"]]),
    ):
        over_rpc = (await ask(visit, ada, rpc("ListTasks", filters)))["result"]
        query = "&".join(f"{name}={value.replace('+', '%2B')}" for name, value in filters.items())
        over_rest = (await visit("GET", f"/agents/{ada}/tasks?{query}", headers=NEW)).json
        assert [task["id"] for task in over_rpc["tasks"]] == expected
        assert over_rest == over_rpc


@pytest.mark.parametrize(
    "query", ["pageSize=0", "pageSize=x", "historyLength=-1", "includeArtifacts=perhaps"]
)
async def test_a_query_that_makes_no_sense_is_refused(visit: Visitor, query: str) -> None:
    ada, _ = await visit.agent()
    assert code_of(await visit("GET", f"/agents/{ada}/tasks?{query}", headers=NEW)) == (400, "INVALID_PARAMS")


async def test_history_is_cut_where_it_is_asked_for(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    task_id = (await ask(visit, ada, send()))["result"]["task"]["id"]
    whole = (await ask(visit, ada, rpc("GetTask", {"id": task_id})))["result"]
    assert len(whole["history"]) == 1
    for length, expected in ((0, None), (1, 1), (9, 1)):
        asked = {"id": task_id, "historyLength": length}
        history = (await ask(visit, ada, rpc("GetTask", asked)))["result"].get("history")
        assert (None if history is None else len(history)) == expected
    rest = await visit("GET", f"/agents/{ada}/tasks/{task_id}?historyLength=0", headers=NEW)
    assert "history" not in rest.json


# The old dialect over HTTP+JSON


async def test_the_old_paths_speak_the_old_shapes(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    said = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hi"}]}
    body = {"message": said, "configuration": {"blocking": False}}
    task = (await visit("POST", f"/agents/{ada}/v1/message:send", body)).json["task"]
    assert task["history"][0]["content"] == [{"text": "hi"}]
    cancelled = await visit("POST", f"/agents/{ada}/v1/tasks/{task['id']}:cancel", {})
    assert cancelled.json["status"]["state"] == "TASK_STATE_CANCELLED"


async def test_a_new_path_wants_to_be_told_its_version(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    answer = await visit("POST", f"/agents/{ada}/message:send", {"message": message()})
    assert code_of(answer) == (400, "VERSION_NOT_SUPPORTED")
    assert "A2A-Version: 1.0" in answer.json["error"]["message"]


async def test_the_extended_card_is_served_over_json_rpc_in_both_dialects(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    new = (await ask(visit, ada, rpc("GetExtendedAgentCard")))["result"]
    old = (await ask(visit, ada, rpc("agent/getAuthenticatedExtendedCard"), headers={}))["result"]
    assert new["supportedInterfaces"][0]["url"] == old["url"] == f"http://platform/agents/{ada}"
    nobody = await visit("POST", f"/agents/{ada}", rpc("GetExtendedAgentCard"), headers=NEW, token=None)
    assert nobody.status == 401
