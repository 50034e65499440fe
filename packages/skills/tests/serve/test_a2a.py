"""A2A: every accepted message runs its skill once, asks, takes answers, is cancelled and replayed."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molecule_skill.auth import APIKeyAuth, APIKeyAuthResolver
from molecule_skill.store import MemoryRunStore, SqliteRunStore
from packages.skills.tests.auth.tokens import digest
from packages.skills.tests.serve.a2a_talk import FORMS, Form, artifacts_of, state_of, task_in
from packages.skills.tests.serve.sample import Sample
from packages.skills.tests.serve.served import STREAMS_CUT, Served, serving, until

forms = pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.version}-{form.binding}")


@pytest.fixture(scope="module")
async def served() -> AsyncIterator[Served]:
    async with serving() as one:
        yield one


def asks(form: Form, skill: str, **arguments: Any) -> dict[str, Any]:
    return {"message": form.message({"skill": skill, "arguments": arguments})}


@forms
async def test_a_message_runs_its_skill_exactly_once(served: Served, form: Form) -> None:
    Sample.calls.clear()
    done = await form.perform(served, "send", asks(form, "shout", text="hi"))
    assert state_of(done) == "TASK_STATE_COMPLETED"
    assert artifacts_of(done)["result"] == "HI"
    assert Sample.calls == ["shout"]
    task = task_in(done)
    assert task["id"].startswith("run_")
    assert (await served.http.get(f"/runs/{task['id']}")).json()["result"] == "HI"
    again = await form.perform(served, "get", {"id": task["id"]})
    assert artifacts_of(again) == artifacts_of(done)
    assert Sample.calls == ["shout"]


@forms
async def test_the_three_ways_to_choose_a_skill(served: Served, form: Form) -> None:
    by_metadata = {"message": form.message({"a": 4}, metadata={"skill": "add"})}
    assert artifacts_of(await form.perform(served, "send", by_metadata))["result"] == {"sum": 5}
    by_other_name = {"message": form.message({"a": 1}, metadata={"molecule.skill": "add"})}
    assert artifacts_of(await form.perform(served, "send", by_other_name))["result"] == {"sum": 2}
    by_text = {"message": form.message("hello")}
    assert artifacts_of(await form.perform(served, "send", by_text))["result"] == "HELLO"


@forms
async def test_a_message_without_a_skill_is_rejected_with_what_there_is(served: Served, form: Form) -> None:
    done = await form.perform(served, "send", {"message": form.message({"a": 4})})
    assert state_of(done) == "TASK_STATE_REJECTED"
    text = str(task_in(done)["status"]["message"])
    assert "shout" in text
    assert "additionalProperties" in text


@forms
@pytest.mark.parametrize(
    ("skill", "arguments", "state", "code"),
    [
        ("absent", {}, "TASK_STATE_REJECTED", "skill-not-found"),
        ("add", {"a": "x"}, "TASK_STATE_REJECTED", "skill-input-invalid"),
        ("guarded", {}, "TASK_STATE_REJECTED", "missing-scopes"),
        ("fail", {"message": "boom"}, "TASK_STATE_FAILED", "skill-failed"),
        ("wrong", {}, "TASK_STATE_FAILED", "skill-output-invalid"),
    ],
)
async def test_errors_have_their_codes(
    served: Served, form: Form, skill: str, arguments: dict[str, Any], state: str, code: str
) -> None:
    done = await form.perform(served, "send", asks(form, skill, **arguments))
    assert state_of(done) == state
    assert task_in(done)["metadata"]["code"] == code


@forms
async def test_results_of_every_kind_arrive(served: Served, form: Form) -> None:
    assert artifacts_of(await form.perform(served, "send", asks(form, "add", a=1)))["result"] == {"sum": 2}
    assert artifacts_of(await form.perform(served, "send", asks(form, "tell", words=2)))["result"] == 2
    done = await form.perform(served, "send", asks(form, "nothing"))
    assert artifacts_of(done)["result"] is None
    done = await form.perform(served, "send", asks(form, "write", name="a.txt", size=1))
    file = artifacts_of(done)["a.txt"]
    assert file == f"{served.url}/runs/{task_in(done)['id']}/artifacts/a.txt"
    assert (await served.http.get(file)).content == b"0123456789"


@forms
async def test_a_question_is_input_required_and_the_next_message_answers_it(
    served: Served, form: Form
) -> None:
    Sample.calls.clear()
    first = await form.perform(served, "send", asks(form, "ask", question="why?"))
    assert state_of(first) == "TASK_STATE_INPUT_REQUIRED"
    assert "why?" in str(task_in(first)["status"]["message"])
    task_id = task_in(first)["id"]
    done = await form.perform(served, "send", {"message": form.message("because", taskId=task_id)})
    assert state_of(done) == "TASK_STATE_COMPLETED"
    assert artifacts_of(done)["result"] == "answer: because"
    assert Sample.calls == ["ask"]
    late = await form.perform(served, "send", {"message": form.message("again", taskId=task_id)})
    assert _code(late) == -32004


@forms
async def test_a_form_takes_data_and_a_wrong_one_stays_open(served: Served, form: Form) -> None:
    first = await form.perform(served, "send", asks(form, "form"))
    task_id = task_in(first)["id"]
    wrong = form.message({"name": "Ada", "age": "old"}, taskId=task_id)
    assert _code(await form.perform(served, "send", {"message": wrong})) == -32602
    assert state_of(await form.perform(served, "get", {"id": task_id})) == "TASK_STATE_INPUT_REQUIRED"
    right = form.message({"name": "Ada", "age": 36}, taskId=task_id)
    assert artifacts_of(await form.perform(served, "send", {"message": right}))["result"] == "Ada 36"


@forms
async def test_two_questions_are_two_turns_of_one_task(served: Served, form: Form) -> None:
    task_id = task_in(await form.perform(served, "send", asks(form, "twice")))["id"]
    between = await form.perform(served, "send", {"message": form.message("a", taskId=task_id)})
    assert state_of(between) == "TASK_STATE_INPUT_REQUIRED"
    assert "second?" in str(task_in(between)["status"]["message"])
    done = await form.perform(served, "send", {"message": form.message("b", taskId=task_id)})
    assert artifacts_of(done)["result"] == "ab"


@forms
async def test_an_answer_by_http_moves_the_task_on(served: Served, form: Form) -> None:
    task_id = task_in(await form.perform(served, "send", asks(form, "ask", question="?")))["id"]
    question = (await served.http.get(f"/runs/{task_id}")).json()["interaction"]["id"]
    await served.http.post(f"/answers/{question}", json={"answer": "x"})

    async def is_done() -> bool:
        return state_of(await form.perform(served, "get", {"id": task_id})) == "TASK_STATE_COMPLETED"

    await until(is_done)


@forms
async def test_cancelling_really_cancels_also_what_waits(served: Served, form: Form) -> None:
    config = {"configuration": {"returnImmediately": True} if form.version == "1.0" else {"blocking": False}}
    begun = await form.perform(served, "send", {**asks(form, "wait", seconds=60), **config})
    first = await form.perform(served, "send", asks(form, "ask", question="?"))
    for task_id in (task_in(begun)["id"], task_in(first)["id"]):
        cancelled = await form.perform(served, "cancel", {"id": task_id})
        assert state_of(cancelled) == "TASK_STATE_CANCELED"

        async def is_over(run: str = task_id) -> bool:
            return (await served.http.get(f"/runs/{run}")).json()["state"] == "cancelled"

        await until(is_over)
        assert _code(await form.perform(served, "cancel", {"id": task_id})) == -32002


@forms
async def test_a_stream_tells_the_task_then_updates_then_the_end(served: Served, form: Form) -> None:
    frames = await form.frames(served, "stream", asks(form, "tell", words=3))
    assert [int(number or 0) for number, _ in frames] == list(range(1, len(frames) + 1))
    assert state_of(frames[0][1]) == "TASK_STATE_SUBMITTED"
    last = frames[-1][1]
    assert _status(last)["state"] in ("TASK_STATE_COMPLETED", "completed")
    artifacts = [_artifact(data) for _, data in frames]
    chunks = [one for one in artifacts if one is not None and one["artifact"]["artifactId"] == "text-1"]
    assert [chunk.get("append", False) for chunk in chunks] == [False, True, True, True]
    assert [chunk.get("lastChunk", False) for chunk in chunks] == [False, False, False, True]
    chapters = [data for _, data in frames if "molecule.event" in str(data)]
    assert len(chapters) == 1


@forms
async def test_a_cut_stream_is_replayed_from_every_frame(served: Served, form: Form) -> None:
    first = await form.frames(served, "stream", asks(form, "tell", words=3))
    task_id = task_in(first[0][1])["id"]
    for cut in range(1, len(first)):
        rest = await form.frames(served, "subscribe", {"id": task_id}, last_event_id=str(first[cut - 1][0]))
        assert rest[1:] == first[cut:]
        assert rest[0][0] == first[cut - 1][0]


@forms
async def test_a_redelivery_and_a_repeated_key_are_the_same_task(served: Served, form: Form) -> None:
    Sample.calls.clear()
    for headers in ({"idempotency-key": f"k-{form}"}, {"x-molecule-message-id": f"row-{form}"}):
        first = await form.perform(served, "send", asks(form, "shout", text="x"), **headers)
        again = await form.perform(served, "send", asks(form, "shout", text="x"), **headers)
        assert task_in(first)["id"] == task_in(again)["id"]
    assert Sample.calls == ["shout", "shout"]
    three = [await form.perform(served, "send", asks(form, "shout", text="x")) for _ in range(3)]
    assert len({task_in(one)["id"] for one in three}) == 3


@forms
async def test_a_file_is_refused_before_anything_runs(served: Served, form: Form) -> None:
    message = form.message("x")
    parts = message["content" if "content" in message else "parts"]
    if form.version == "1.0":
        parts.append({"url": "https://x.example/a.pdf", "mediaType": "application/pdf"})
    elif form.binding == "rpc":
        parts.append(
            {"kind": "file", "file": {"uri": "https://x.example/a.pdf", "mimeType": "application/pdf"}}
        )
    else:
        parts.append({"file": {"fileWithUri": "https://x.example/a.pdf", "mimeType": "application/pdf"}})
    assert _code(await form.perform(served, "send", {"message": message})) == -32005


@pytest.mark.slow  # thirty conversations over a socket; `make test-long` has a thousand
@given(
    form=st.sampled_from(FORMS),
    skill=st.sampled_from(["tell", "twice", "fail", "add"]),
    words=st.integers(0, 6),
    cuts=st.lists(st.integers(1, 5), max_size=6),
)
@settings(max_examples=STREAMS_CUT, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_a_live_stream_cut_anywhere_and_resumed_is_the_whole_stream(
    served: Served, form: Form, skill: str, words: int, cuts: list[int]
) -> None:
    arguments: dict[str, dict[str, Any]] = {
        "tell": {"words": words},
        "fail": {"message": "x"},
        "add": {"a": 1},
    }
    answers = ["a", "b"] if skill == "twice" else []
    received = await form.frames(
        served, "stream", asks(form, skill, **arguments.get(skill, {})), limit=cuts[0] if cuts else None
    )
    task_id = task_in(received[0][1])["id"]
    left = [*cuts[1:], *([None] * 20)]
    while not is_end(received[-1][1]):
        seen = str(received[-1][0])
        rest = await form.frames(
            served,
            "subscribe",
            {"id": task_id},
            limit=None if left[0] is None else left[0] + 1,
            last_event_id=seen,
        )
        received += rest[1:]
        left.pop(0)
        if is_question(received[-1][1]):
            message = {"message": form.message(answers.pop(0), taskId=task_id)}
            received += await form.frames(served, "stream", message, limit=left.pop(0))
    numbers = [int(number or 0) for number, _ in received]
    assert numbers == list(range(1, len(received) + 1))
    whole = await form.frames(served, "subscribe", {"id": task_id}, last_event_id="0")
    assert [number for number, _ in whole] == [number for number, _ in received]
    assert [data for _, data in whole[1:]] == [data for _, data in received[1:]]


def is_question(data: Any) -> bool:
    return "status" in str(data) and _state_in(data) in ("TASK_STATE_INPUT_REQUIRED", "input-required")


def is_end(data: Any) -> bool:
    return _state_in(data) in ("TASK_STATE_COMPLETED", "completed", "TASK_STATE_FAILED", "failed")


def _state_in(data: Any) -> Any:
    update = data.get("statusUpdate", data)
    return update["status"]["state"] if "status" in update else None


async def test_only_the_caller_of_a_task_sees_it() -> None:
    keys = [{"id": name, "sha256": digest(f"key-{name}")} for name in ("ada", "bob")]

    class Keyed(Sample):
        name = "keyed"
        auth_model = APIKeyAuth
        auth_resolver = APIKeyAuthResolver(keys)

    async with serving(Keyed()) as served:
        ada, bob = ({"authorization": f"Bearer key-{name}"} for name in ("ada", "bob"))
        for form in FORMS:
            assert "unauthenticated" in str(await form.perform(served, "send", asks(form, "nothing")))
            done = await form.perform(served, "send", asks(form, "nothing"), **ada)
            task_id = task_in(done)["id"]
            for operation in ("get", "cancel", "subscribe"):
                assert _code(await form.perform(served, operation, {"id": task_id}, **bob)) == -32001
        listed = (await served.rpc("ListTasks", {}, **bob))["result"]
        assert listed["tasks"] == []
        assert (await served.rpc("ListTasks", {}, **ada))["result"]["totalSize"] == 4


async def test_tasks_survive_a_restart_with_the_numbers_of_their_frames(tmp_path: Any) -> None:
    form = FORMS[0]
    path = tmp_path / "runs.db"
    async with serving(store=SqliteRunStore(path)) as served:
        first = await form.frames(served, "stream", asks(form, "tell", words=3))
        second = await form.frames(served, "stream", asks(form, "twice"))
        two = task_in(second[0][1])["id"]
        second += await form.frames(served, "stream", {"message": form.message("a", taskId=two)})
        second += await form.frames(served, "stream", {"message": form.message("b", taskId=two)})
    async with serving(store=SqliteRunStore(path)) as served:
        for reply in (first, second):
            task_id = task_in(reply[0][1])["id"]
            again = await form.perform(served, "get", {"id": task_id})
            assert state_of(again) == "TASK_STATE_COMPLETED"
            for cut in range(1, len(reply)):
                rest = await form.frames(served, "subscribe", {"id": task_id}, last_event_id=str(cut))
                assert [number for number, _ in rest[1:]] == [number for number, _ in reply[cut:]]
        listed = (await served.rpc("ListTasks", {}))["result"]
        assert listed["totalSize"] == 2


async def test_push_is_the_platforms_and_refused_here() -> None:
    async with serving() as served:
        task = task_in(await FORMS[0].perform(served, "send", asks(FORMS[0], "shout", text="x")))
        config = {"url": "https://example.com/hook"}
        requests: list[tuple[str, str, dict[str, Any]]] = [
            ("1.0", "CreateTaskPushNotificationConfig", {"taskId": task["id"], **config}),
            (
                "0.3",
                "tasks/pushNotificationConfig/set",
                {"taskId": task["id"], "pushNotificationConfig": config},
            ),
        ]
        for version, method, params in requests:
            assert (await served.rpc(method, params, version))["error"]["code"] == -32003
        card = (await served.http.get("/.well-known/agent-card.json")).json()
        assert card["capabilities"].get("pushNotifications") in (None, False)


async def test_a_burst_leaves_nothing_in_working() -> None:
    async with serving(store=MemoryRunStore()) as served:
        form = FORMS[0]
        sent = [form.perform(served, "send", asks(form, "shout", text="x")) for _ in range(60)]
        done = await asyncio.gather(*sent)
        states = {state_of(one) if "error" not in one else "busy" for one in done}
        assert states <= {"TASK_STATE_COMPLETED", "busy"}
        assert (await served.http.get("/.well-known/agent-card.json")).status_code == 200
        listed = (await served.rpc("ListTasks", {"status": "TASK_STATE_WORKING"}))["result"]
        assert listed["totalSize"] == 0


def _code(answer: Any) -> Any:
    error = answer["error"]
    if "details" not in error:
        return error["code"]
    reasons = {
        "TASK_NOT_FOUND": -32001,
        "TASK_NOT_CANCELABLE": -32002,
        "UNSUPPORTED_OPERATION": -32004,
        "CONTENT_TYPE_NOT_SUPPORTED": -32005,
        "INVALID_PARAMS": -32602,
    }
    return reasons[error["details"][0]["reason"]]


def _status(data: Any) -> Any:
    return data.get("statusUpdate", data)["status"]


def _artifact(data: Any) -> Any:
    if "artifactUpdate" in data:
        return data["artifactUpdate"]
    return data if data.get("kind") == "artifact-update" else None
