"""A2A over a restart: a task keeps its message, its tenant and its caller, and a message runs once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from molecule_skill import A2AAgent, RunContext, skill
from molecule_skill.store import SqliteRunStore
from packages.skills.tests.serve.a2a_talk import FORMS, Form, artifacts_of, state_of, task_in
from packages.skills.tests.serve.served import serving, until

forms = pytest.mark.parametrize("form", FORMS, ids=str)
RELEASED = asyncio.Event()


class Durable(A2AAgent[Any, Any]):
    name = "durable"
    concurrency = 8
    calls: list[str] = []

    @skill()
    async def shout(self, ctx: RunContext[Any], text: str) -> str:
        """Say it louder."""
        self.calls.append(text)
        return text.upper()

    @skill(durable=True)
    async def ask(self, ctx: RunContext[Any], question: str) -> str:
        """Ask a person, then work until the test lets it end."""
        answer = await ctx.ask(question, timeout=60)
        await RELEASED.wait()
        self.calls.append(answer)
        return answer


def asks(form: Form, name: str, **arguments: Any) -> dict[str, Any]:
    return {"message": form.message({"skill": name, "arguments": arguments})}


@forms
async def test_a_message_that_comes_again_after_a_restart_is_its_first_task(
    form: Form, tmp_path: Path
) -> None:
    Durable.calls.clear()
    keys: list[dict[str, str]] = [{"x-molecule-message-id": "row-1"}, {"idempotency-key": "k"}]
    first: list[Any] = []
    async with serving(Durable(), store=SqliteRunStore(tmp_path / "runs.db")) as served:
        for headers in keys:
            first.append(await form.perform(served, "send", asks(form, "shout", text="a"), **headers))
    async with serving(Durable(), store=SqliteRunStore(tmp_path / "runs.db")) as served:
        for headers, before in zip(keys, first, strict=True):
            again = await form.perform(served, "send", asks(form, "shout", text="a"), **headers)
            assert task_in(again)["id"] == task_in(before)["id"]
            assert artifacts_of(again) == artifacts_of(before)
        other = await form.perform(served, "send", asks(form, "shout", text="b"), **keys[1])
        assert "error" in other
    assert Durable.calls == ["a", "a"]


@forms
async def test_answers_and_questions_come_once_also_when_the_platform_delivers_them_twice(
    form: Form, tmp_path: Path
) -> None:
    Durable.calls.clear()
    RELEASED.clear()
    path, row, answer_row = (
        tmp_path / "runs.db",
        {"x-molecule-message-id": "r1"},
        {"x-molecule-message-id": "r2"},
    )
    question = asks(form, "ask", question="who?")
    async with serving(Durable(), store=SqliteRunStore(path)) as served:
        first = await form.perform(served, "send", question, **row)
        task_id = task_in(first)["id"]
    async with serving(Durable(), store=SqliteRunStore(path)) as served:
        again = await form.perform(served, "send", question, **row)
        assert (task_in(again)["id"], state_of(again)) == (task_id, "TASK_STATE_INPUT_REQUIRED")
        reply = {"message": form.message("Ada", taskId=task_id)}
        sending = asyncio.ensure_future(form.perform(served, "send", reply, **answer_row))

        async def is_answered() -> bool:
            return len(await served.app.gate.reader(task_id, None).events()) >= 3

        await until(is_answered)
    await asyncio.wait({sending})
    async with serving(Durable(), store=SqliteRunStore(path)) as served:
        waiting = asyncio.ensure_future(form.perform(served, "send", reply, **answer_row))
        ended, _ = await asyncio.wait({waiting}, timeout=0.1)
        assert not ended
        RELEASED.set()
        done = await waiting
        assert (task_in(done)["id"], state_of(done)) == (task_id, "TASK_STATE_COMPLETED")
        assert artifacts_of(done) == {"result": "Ada"}
    assert Durable.calls == ["Ada"]


async def test_a_task_keeps_its_message_and_its_tenant(tmp_path: Path) -> None:
    form, path = FORMS[0], tmp_path / "runs.db"
    message = {**form.message("hello"), "metadata": {"skill": "shout", "note": "kept"}, "messageId": "mine"}
    message["parts"] = [{"data": {"text": "hello"}}]
    async with serving(Durable(), store=SqliteRunStore(path)) as served:
        sent = await served.rpc("SendMessage", {"message": message, "tenant": "red"})
        task = sent["result"]["task"]
    async with serving(Durable(), store=SqliteRunStore(path)) as served:
        found = (await served.rpc("GetTask", {"id": task["id"], "tenant": "red"}))["result"]
        assert found["history"] == task["history"]
        assert found["history"][0]["metadata"]["note"] == "kept"
        for tenant in ({}, {"tenant": "blue"}):
            assert (await served.rpc("GetTask", {"id": task["id"], **tenant}))["error"]["code"] == -32001
            assert (await served.rpc("ListTasks", tenant))["result"]["tasks"] == []
