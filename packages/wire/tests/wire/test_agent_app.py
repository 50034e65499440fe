"""The asyncio server at its edges: what comes too slowly, and from whom."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from molecule_a2a import AgentApp, Turn
from molecule_wire import JSONObject
from molecule_wire.a2a import errors
from molecule_wire.a2a.server.records import TurnRecord
from molecule_wire.a2a.server.requests import Invocation
from molecule_wire.a2a.server.task_log import Owner, TaskLog


def scope(**headers: str) -> dict[str, Any]:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": named,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
    }


async def asked(app: AgentApp, asgi: dict[str, Any]) -> int:
    sent: list[Any] = []

    async def never() -> Any:
        await asyncio.Event().wait()

    async def keep(event: Any) -> None:
        sent.append(event)

    async with asyncio.timeout(10):
        await app(asgi, never, keep)
    return int(sent[0]["status"])


async def nothing(_turn: object) -> None:
    return None


async def test_a_body_that_does_not_come_is_given_up() -> None:
    app = AgentApp(nothing, {"name": "a"}, url="http://127.0.0.1/", max_body_seconds=0.05)
    assert await asked(app, scope()) == 408


async def test_a_stranger_is_refused_before_its_body_is_read() -> None:
    app = AgentApp(nothing, {"name": "a"}, url="http://127.0.0.1/", max_body_seconds=60)
    assert await asked(app, scope(x_forwarded_for="10.0.0.1")) == 401


async def test_an_agent_that_does_not_stream_says_so_and_refuses_to() -> None:
    card: JSONObject = {"name": "a", "capabilities": {"streaming": False}}
    app = AgentApp(nothing, card, url="http://127.0.0.1/")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        shown = (await client.get("/.well-known/agent-card.json")).json()
        message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": message}}
        refused = (await client.post("/", json=body)).json()
    assert shown["capabilities"]["streaming"] is False
    assert refused["error"]["code"] == -32004


class CountingStore:
    """A store that counts its commits and what nobody may have seen before them."""

    def __init__(self) -> None:
        self.saved: list[str] = []
        self.commits: list[list[str]] = []

    @property
    def is_committed(self) -> bool:
        return not self.saved

    def save(self, record: TurnRecord) -> None:
        self.saved.append(record.task_id)

    def commit(self) -> None:
        self.commits.append(self.saved)
        self.saved = []

    def load(self) -> list[TurnRecord]:
        return []


def posted(method: str, number: int) -> JSONObject:
    message: JSONObject = {"messageId": f"m{number}", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": {"message": message}}


async def test_an_end_that_nobody_waits_for_is_committed_too() -> None:
    store, gate = CountingStore(), asyncio.Event()

    async def answer(turn: Turn) -> str:
        await gate.wait()
        return "done"

    app = AgentApp(answer, {"name": "a"}, url="http://127.0.0.1/", store=store)
    body = posted("SendMessage", 1)
    assert isinstance(body["params"], dict)
    body["params"]["configuration"] = {"returnImmediately": True}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        await client.post("/", json=body, headers={"a2a-version": "1.0"})
    gate.set()
    async with asyncio.timeout(10):
        while not store.commits:  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0)
    assert store.is_committed


async def test_turns_that_end_together_share_a_commit_and_nobody_is_answered_before_it() -> None:
    store, gate = CountingStore(), asyncio.Event()
    seen_uncommitted: list[str] = []
    begun: list[Turn] = []

    async def answer(turn: Turn) -> str:
        begun.append(turn)
        await gate.wait()
        return "done"

    async def post(client: httpx.AsyncClient, method: str, number: int) -> str:
        reply = await client.post("/", json=posted(method, number), headers={"a2a-version": "1.0"})
        seen_uncommitted.extend(store.saved)
        return reply.text

    app = AgentApp(answer, {"name": "a"}, url="http://127.0.0.1/", store=store)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        methods = ["SendMessage"] * 4 + ["SendStreamingMessage"] * 4
        asking = [asyncio.create_task(post(client, method, place)) for place, method in enumerate(methods)]
        while len(begun) < len(methods):  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0)
        gate.set()
        replies = await asyncio.gather(*asking)
    assert all("done" in reply for reply in replies)
    assert seen_uncommitted == []
    assert sum(map(len, store.commits)) == 8
    assert len(store.commits) < 4


async def sent(app: AgentApp, method: str, params: JSONObject) -> JSONObject:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return (await client.post("/", json=body, headers={"a2a-version": "1.0"})).json()


def message(text: str) -> JSONObject:
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}}


async def test_an_agent_that_keeps_its_tasks_names_them_and_says_when_the_work_begins() -> None:
    async def handle(turn: Turn) -> None:
        assert turn.log.number == 1
        turn.complete("done")

    app = AgentApp(
        handle, {"name": "a"}, url="http://127.0.0.1/", new_task_id=lambda: "run_1", announces_work=False
    )
    task = (await sent(app, "SendMessage", message("hi")))["result"]
    assert isinstance(task, dict)
    assert isinstance(task["task"], dict)
    assert task["task"]["id"] == "run_1"


async def test_a_task_that_was_kept_elsewhere_is_brought_back_before_it_is_asked_for() -> None:
    async def prepare(operation: Invocation, principal: str, headers: Mapping[str, str]) -> None:
        kept = TaskLog("t1", "c1", Owner(principal))
        status: JSONObject = {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-01T00:00:00.000Z"}
        kept.append({"task": {"id": "t1", "contextId": "c1", "status": status}})
        app.tasks.adopt(kept)

    app = AgentApp(nothing, {"name": "a"}, url="http://127.0.0.1/", prepare=prepare)
    answer = await sent(app, "GetTask", {"id": "t1"})
    assert isinstance(answer["result"], dict)
    assert answer["result"]["id"] == "t1"
    assert "error" in await sent(app, "GetTask", {"id": "t2"})


async def test_an_operation_can_be_refused_before_anything_runs() -> None:
    ran: list[object] = []

    async def handle(turn: Turn) -> None:
        ran.append(turn)

    async def prepare(operation: Invocation, principal: str, headers: Mapping[str, str]) -> None:
        raise errors.protocol_error(errors.CONTENT_TYPE_NOT_SUPPORTED)

    app = AgentApp(handle, {"name": "a"}, url="http://127.0.0.1/", prepare=prepare)
    refused = (await sent(app, "SendMessage", message("hi")))["error"]
    assert isinstance(refused, dict)
    assert refused["code"] == -32005
    assert ran == []


async def test_a_message_that_is_called_off_before_it_began_is_never_run_and_its_sender_is_told() -> None:
    ran: list[object] = []

    async def handle(turn: Turn) -> None:
        ran.append(turn)

    told: list[Turn] = []
    interrupts: list[Callable[[Turn], object] | None] = [None, told.append]
    for interrupt in interrupts:
        app = AgentApp(
            handle,
            {"name": "a"},
            url="http://127.0.0.1/",
            new_task_id=lambda: "t1",
            interrupt=interrupt,
            turn_seconds=None,
        )
        sending = asyncio.create_task(sent(app, "SendMessage", message("hi")))
        while app.tasks.known_task("t1") is None:  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0)
        canceled = (await sent(app, "CancelTask", {"id": "t1"}))["result"]
        assert isinstance(canceled, dict)
        assert canceled["status"] == (await sending)["result"]["task"]["status"]  # type: ignore[index, call-overload]
    assert ran == []
    assert len(told) == 1


async def test_numbers_do_not_depend_on_readers_where_chunks_are_not_merged() -> None:
    async def handle(turn: Turn) -> None:
        for text in "abc":
            turn.artifact({"artifactId": "x", "parts": [{"text": text}]}, append=text != "a")

    logs: list[TaskLog] = []
    for merges in (True, False):

        async def keep(turn: Turn) -> None:
            logs.append(turn.log)
            await handle(turn)

        app = AgentApp(keep, {"name": "a"}, url="http://127.0.0.1/", merges_chunks=merges)
        await sent(app, "SendMessage", message("hi"))
    assert [log.number for log in logs] == [3, 5]
