"""Delegations over HTTP: both forms of the path, keys, results, limits, streams, and agents' own records."""

from typing import Any

import pytest

from molecule_agent import RemoteAgentClient
from tests.spec.platforms import Platform, Start
from tests.spec.scripted_agent import ScriptedAgent, join_push
from tests.spec.streams import stream

pytestmark = pytest.mark.both_engines

UNKNOWN = "11111111-1111-4111-8111-111111111111"


def token(agent: RemoteAgentClient) -> str:
    found = agent.load_token()
    assert found is not None
    return found


def delegate(
    platform: Platform, source: RemoteAgentClient, target: RemoteAgentClient, task: str, **more: Any
) -> dict[str, Any]:
    """Form A: the path names the source."""
    path = f"/workspaces/{source.workspace_id}/delegations"
    body = {"target_id": target.workspace_id, "task": task, **more}
    return platform.ok("POST", path, token(source), json=body)


def taken(platform: Platform, worker: RemoteAgentClient) -> list[dict[str, Any]]:
    path = f"/workspaces/{worker.workspace_id}/inbox/lease"
    return platform.ok("POST", path, token(worker), json={"wait": 20})["messages"]


def answer(
    platform: Platform, worker: RemoteAgentClient, item: dict[str, Any], said: str, **more: Any
) -> None:
    path = f"/workspaces/{worker.workspace_id}/inbox/{item['message_id']}/answer"
    body = {"lease_token": item["lease"]["token"], "text": said, **more}
    platform.ok("POST", path, token(worker), json=body)


def ended(platform: Platform, agent: RemoteAgentClient, made: dict[str, Any]) -> dict[str, Any]:
    whole = platform.ok("GET", f"/delegations/{made['delegation_id']}?wait=20", token(agent), timeout=30)
    assert whole["finished_at"] is not None, whole
    return whole


def test_t10_the_same_task_under_the_same_key_is_delegated_once(platform: Platform) -> None:
    a, b = platform.join("a"), platform.join("b")
    path, headers = f"/workspaces/{b.workspace_id}/delegate", {"X-Workspace-ID": a.workspace_id}
    body = {"task": "task", "idempotency_key": "f" * 64}

    first = platform.call("POST", path, token(a), headers=headers, json=body)
    assert first.status_code == 202, first.text
    assert set(first.json()) == {"delegation_id", "status", "target_id", "message_id", "deadline_at"}
    assert (first.json()["status"], first.json()["target_id"]) == ("delegated", b.workspace_id)

    again = platform.call("POST", path, token(a), headers=headers, json=body)
    assert again.status_code == 200
    assert again.json()["idempotent_hit"] is True
    assert again.json()["delegation_id"] == first.json()["delegation_id"]

    assert [item["text"] for item in taken(platform, b)] == ["task"]
    other = platform.call("POST", path, token(a), headers=headers, json=body | {"task": "other"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency-conflict")


def test_both_forms_of_the_path_and_the_canonical_one_name_the_same_source_and_target(
    platform: Platform,
) -> None:
    a, b = platform.join("a"), platform.join("b")
    form_a = platform.ok(
        "POST",
        f"/workspaces/{a.workspace_id}/delegate",
        token(a),
        json={"target_id": b.workspace_id.upper(), "task": "1", "unknown": "ignored"},
    )
    form_b = platform.ok("POST", f"/workspaces/{b.workspace_id}/delegate", token(a), json={"task": "2"})
    canonical = delegate(platform, a, b, "3")
    for made in (form_a, form_b, canonical):
        whole = platform.ok("GET", f"/delegations/{made['delegation_id']}", token(b))
        assert (whole["source"], whole["target_id"]) == (f"workspace:{a.workspace_id}", b.workspace_id)
    listed = platform.call("GET", f"/workspaces/{a.workspace_id}/delegations?limit=2", token(a))
    assert [row["summary"] for row in listed.json()] == ["3", "2"]
    cursor = listed.headers["X-Next-Cursor"]
    rest = platform.ok("GET", f"/workspaces/{a.workspace_id}/delegations?cursor={cursor}", token(a))
    assert [row["summary"] for row in rest] == ["1"]
    assert platform.ok("GET", f"/workspaces/{b.workspace_id}/delegations", token(b)) == []
    assert len(platform.ok("GET", f"/workspaces/{b.workspace_id}/delegations?role=target", token(b))) == 3


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"task": "x"}, 400, "invalid-request"),
        ({"task": "", "target_id": UNKNOWN}, 400, "invalid-request"),
        ({"task": "x", "target_id": "nobody"}, 400, "invalid-id"),
        ({"task": "x", "target_id": UNKNOWN}, 404, "workspace-not-found"),
        ({"task": "x", "target_id": UNKNOWN, "deadline_seconds": 604_801}, 400, "invalid-request"),
        ({"task": "x", "target_id": UNKNOWN, "deadline_at": "soon"}, 400, "invalid-request"),
        ({"task": "x", "target_id": UNKNOWN, "wish": 1}, 400, "invalid-request"),
    ],
)
def test_what_cannot_be_delegated_is_refused_with_a_reason(
    platform: Platform, body: dict[str, Any], status: int, code: str
) -> None:
    a = platform.join("a")
    refused = platform.call("POST", f"/workspaces/{a.workspace_id}/delegations", token(a), json=body)
    assert (refused.status_code, refused.json()["code"]) == (status, code)


def test_the_tree_decides_before_anything_is_accepted(platform: Platform) -> None:
    a, b = platform.join("a"), platform.join("b")
    inner = platform.join("inner", b.workspace_id)
    for path, body in (
        (f"/workspaces/{a.workspace_id}/delegate", {"target_id": inner.workspace_id, "task": "x"}),
        (f"/workspaces/{inner.workspace_id}/delegate", {"task": "x"}),
    ):
        refused = platform.call("POST", path, token(a), json=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "hierarchy-denied")
    stolen = platform.call(
        "POST",
        f"/workspaces/{b.workspace_id}/delegate",
        token(a),
        json={"target_id": platform.join("c").workspace_id, "task": "x"},
    )
    assert (stolen.status_code, stolen.json()["code"]) == (403, "identity-mismatch")


def test_a_push_agent_does_the_work_and_the_source_gets_all_of_it(
    platform: Platform, agent: ScriptedAgent
) -> None:
    a, b = platform.join("a"), join_push(platform, agent)
    made = delegate(platform, a, b, "write " + "x" * 2000)
    whole = ended(platform, a, made)
    assert (whole["status"], whole["outcome"], whole["attempts"]) == ("completed", "completed", 1)
    assert whole["result"]["text"] == "re: write " + "x" * 2000
    [(_, received)] = agent.received
    said = received["params"]["message"]
    assert said["messageId"] == said["metadata"]["delegation_id"] == made["delegation_id"]
    [row] = platform.ok("GET", f"/workspaces/{a.workspace_id}/delegations?status=completed", token(a))
    assert len(row["response_preview"]) == 300
    alias = f"/workspaces/{b.workspace_id}/delegations/{made['delegation_id']}"
    assert platform.ok("GET", alias, token(b)) == whole
    missing = platform.call("GET", alias.replace(b.workspace_id, platform.create("c")["id"]))
    assert (missing.status_code, missing.json()["code"]) == (404, "delegation-not-found")


def test_deliverables_evidence_and_what_is_missing(platform: Platform) -> None:
    a, b = platform.join("a"), platform.join("b")
    wanted = [{"name": "poem", "description": "with rhymes"}, {"name": "notes", "required": False}]
    made = delegate(platform, a, b, "write", deliverables=wanted)
    path = f"/delegations/{made['delegation_id']}"
    [item] = taken(platform, b)
    answer(platform, b, item, "a rose")
    assert ended(platform, a, made)["missing"] == ["poem"]
    late = platform.call(
        "POST",
        f"{path}/evidence",
        token(b),
        json={"deliverable": "poem", "kind": "url", "uri": "https://x.org/p"},
    )
    assert late.status_code == 201
    whole = platform.ok("GET", path, token(a))
    assert whole["incomplete"] is True
    assert whole["deliverables"][0] == {
        "name": "poem",
        "description": "with rhymes",
        "media_type": None,
        "required": True,
        "satisfied": True,
        "evidence_ids": [late.json()["evidence_id"]],
    }
    unknown = platform.call(
        "POST", f"{path}/evidence", token(b), json={"deliverable": "song", "kind": "text"}
    )
    assert unknown.status_code == 400


def test_a_deadline_is_an_outcome_that_the_source_learns(platform: Platform) -> None:
    a, b = platform.join("a"), platform.join("b")
    made = delegate(platform, a, b, "too late", deadline_seconds=1)
    whole = ended(platform, a, made)
    assert (whole["outcome"], whole["error"]["code"]) == ("expired", "deadline-exceeded")
    events = platform.ok("GET", f"/events/{a.workspace_id}?type=DELEGATION_FAILED")
    assert [event["payload"]["outcome"] for event in events] == ["expired"]


def test_calling_off_reaches_what_came_of_it(platform: Platform) -> None:
    a, b, c = platform.join("a"), platform.join("b"), platform.join("c")
    first = delegate(platform, a, b, "write")
    taken(platform, b)
    second = delegate(platform, b, c, "help me")
    cancel = f"/delegations/{first['delegation_id']}/cancel"
    refused = platform.call("POST", cancel, token(b), json={})
    assert refused.status_code == 403
    assert platform.ok("POST", cancel, token(a), json={"reason": "enough"})["outcome"] == "cancelled"
    whole = ended(platform, c, second)
    assert (whole["outcome"], whole["parent_delegation_id"]) == ("cancelled", first["delegation_id"])
    assert whole["chain"] == [a.workspace_id, b.workspace_id, c.workspace_id]
    again = platform.call("POST", cancel, token(a), json={})
    assert (again.status_code, again.json()["code"]) == (409, "not-cancelable")


def test_loops_and_depth_are_refused_with_the_path(configured: Start) -> None:
    platform = configured(MAX_DELEGATION_DEPTH=1)
    a, b, c = platform.join("a"), platform.join("b"), platform.join("c")
    delegate(platform, a, b, "write")
    taken(platform, b)
    path = f"/workspaces/{b.workspace_id}/delegations"
    deep = platform.call("POST", path, token(b), json={"target_id": c.workspace_id, "task": "x"})
    assert (deep.status_code, deep.json()["code"]) == (409, "delegation-limit")
    assert (deep.json()["detail"], deep.json()["limit"]) == ("depth", 1)
    assert deep.json()["chain"] == [a.workspace_id, b.workspace_id]


def test_a_loop_is_refused_for_plain_messages_too(platform: Platform) -> None:
    a, b = platform.join("a"), platform.join("b")
    delegate(platform, a, b, "write")
    taken(platform, b)
    path = f"/workspaces/{b.workspace_id}/delegations"
    circle = platform.call("POST", path, token(b), json={"target_id": a.workspace_id, "task": "x"})
    assert (circle.status_code, circle.json()["detail"]) == (409, "cycle")
    plain = platform.send(a.workspace_id, "you do it", token(b))
    assert (plain.status_code, plain.json()["code"]) == (409, "delegation-limit")


def test_the_events_of_a_delegation_are_told_from_its_beginning_to_its_end(platform: Platform) -> None:
    a, b = platform.join("a"), platform.join("b")
    made = delegate(platform, a, b, "write", deliverables=[{"name": "poem"}])
    delegate(platform, a, b, "something else")
    path = f"/delegations/{made['delegation_id']}"
    with stream(platform, f"{path}/events", token(a)) as live:
        item = next(one for one in taken(platform, b) if one["text"] == "write")
        reports = f"/workspaces/{b.workspace_id}/inbox/{item['message_id']}/progress"
        report = {"lease_token": item["lease"]["token"], "text": "half of it"}
        platform.ok("POST", reports, token(b), json=report)
        shown = {"deliverable": "poem", "kind": "text", "text": "a rose"}
        platform.ok("POST", f"{path}/evidence", token(b), json=shown)
        answer(platform, b, item, "done")
        told = live.until("DELEGATION_COMPLETE")
        assert live.ends()
    assert [one.event for one in told] == [
        "DELEGATION_SENT",
        "DELEGATION_STATUS",
        "DELEGATION_STATUS",
        "DELEGATION_STATUS",
        "DELEGATION_COMPLETE",
    ]
    assert {one.data["payload"]["delegation_id"] for one in told} == {made["delegation_id"]}
    assert told[2].data["payload"]["progress"] == {"text": "half of it"}
    assert told[3].data["payload"]["evidence"]["deliverable"] == "poem"
    with stream(platform, f"{path}/events", token(b), Last_Event_ID=told[1].id) as resumed:
        assert [one.event for one in resumed.until("DELEGATION_COMPLETE")][-1] == "DELEGATION_COMPLETE"
        assert resumed.ends()
    strange = platform.call("GET", f"{path}/events", token(platform.join("c")), stream=True)
    assert strange.status_code == 404


def test_agents_record_and_close_what_they_hand_over_themselves(platform: Platform) -> None:
    a, b = platform.join("a"), platform.join("b")
    record = f"/workspaces/{a.workspace_id}/delegations/record"
    body = {"target_id": b.workspace_id, "task": "write", "delegation_id": "mine-1"}
    for _ in range(2):
        kept = platform.call("POST", record, token(a), json=body)
        assert (kept.status_code, kept.json()) == (202, {"delegation_id": "mine-1", "status": "recorded"})
    other = platform.call("POST", record, token(a), json=body | {"task": "other"})
    assert other.status_code == 409
    update = f"/workspaces/{b.workspace_id}/delegations/mine-1/update"
    closed = platform.ok("POST", update, token(b), json={"status": "completed", "response_preview": "a rose"})
    assert closed == {"status": "completed", "delegation_id": "mine-1"}
    contrary = platform.call("POST", update, token(b), json={"status": "failed"})
    assert contrary.status_code == 409
    whole = platform.ok("GET", "/delegations/mine-1", token(a))
    assert (whole["recorded"], whole["result"]["text"]) == (True, "a rose")


def test_a_report_by_inbox_names_the_outcome_and_links_the_result(platform: Platform) -> None:
    a, b = platform.join("a"), platform.join("b")
    made = delegate(platform, a, b, "write", report="inbox")
    [item] = taken(platform, b)
    answer(platform, b, item, "the very words")
    [report] = taken(platform, a)
    assert report["kind"] == "delegation_result"
    assert report["metadata"]["delegation_result"]["delegation_id"] == made["delegation_id"]
    assert "the very words" not in str(report)


def test_a_delegation_outlives_the_process_that_took_it(restarting: Start) -> None:
    platform = restarting()
    a, b = platform.join("a"), platform.join("b")
    made = delegate(platform, a, b, "write")
    platform.stop()
    again = restarting()
    [item] = taken(again, b)
    answer(again, b, item, "after all")
    assert ended(again, a, made)["result"]["text"] == "after all"


def test_people_delegate_in_the_name_of_a_workspace(platform: Platform) -> None:
    a, b = platform.join("a"), platform.join("b")
    path = f"/workspaces/{a.workspace_id}/delegate"
    made = platform.ok("POST", path, json={"target_id": b.workspace_id, "task": "write"})
    whole = platform.ok("GET", f"/delegations/{made['delegation_id']}", token(a))
    assert (whole["source"], whole["source_id"]) == ("user:admin", a.workspace_id)
    nameless = platform.call("POST", path, json={"task": "write"})
    assert (nameless.status_code, nameless.json()["field"]) == (400, "target_id")
