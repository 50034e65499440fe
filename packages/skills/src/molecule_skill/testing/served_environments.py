"""Places over a socket: a case through `POST /invoke`, and as messages of A2A 1.0 and 0.3 (extra `serve`)."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

from pydantic import BaseModel

from molecule_skill.agent import A2AAgent
from molecule_skill.http_client import HttpClient, HttpReply
from molecule_skill.interactions import Decline
from molecule_skill.serve.app import make_app
from molecule_skill.serve.server import HttpServer, bind
from molecule_skill.store import MemoryRunStore
from molecule_skill.testing.environments import CALLER, Case, CaseResult, author_kinds
from molecule_skill.testing.identity import StaticAuthResolver
from molecule_wire import JSONObject, jsontext
from molecule_wire.a2a import convert

TIMEOUT_SECONDS = 60.0


class _Server:
    """A served agent and a client for it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._http = HttpClient(allow_private=True)

    async def send(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, Any]]:
        content = None if body is None else jsontext.encode(body)
        message = {
            "content-type": "application/json",
            **{name.replace("_", "-"): text for name, text in headers.items()},
        }
        reply: HttpReply = await self._http.send(
            method, self._url + path, headers=message, content=content, timeout=TIMEOUT_SECONDS
        )
        return reply.status, cast("dict[str, Any]", jsontext.decode(reply.body))

    async def kinds(self, run_id: str) -> tuple[str, ...]:
        """The kinds of all events of a run; a task of A2A has the id of its run."""
        _, page = await self.send("GET", f"/runs/{run_id}/events")
        return author_kinds([event["kind"] for event in page["events"]])

    async def close(self) -> None:
        await self._http.close()


@asynccontextmanager
async def _served(agent: A2AAgent[Any, Any], case: Case) -> AsyncGenerator[_Server]:
    app = make_app(
        agent,
        resolver=StaticAuthResolver(case.auth, CALLER),
        store=MemoryRunStore(),
        grants=None,
        sandboxes=None,
        secrets=case.secrets,
        a2a=case.a2a,
        drain_seconds=0.0,
    )
    listener, http_server = bind("127.0.0.1", 0), HttpServer(app)
    await app.start()
    await http_server.start(listener)
    server = _Server(f"http://127.0.0.1:{listener.getsockname()[1]}")
    try:
        yield server
    finally:
        await server.close()
        await app.stop()
        await http_server.stop(1.0)


class HttpEnvironment:
    """Served, and called by `POST /invoke`."""

    name = "over HTTP"

    async def run(self, agent: A2AAgent[Any, Any], case: Case) -> CaseResult:
        """See `Place`."""
        async with _served(agent, case) as server:
            # A key makes every repetition wait for the same run.
            key = {"idempotency_key": "case"}
            invocation = {"arguments": case.arguments}
            status, body = await server.send("POST", f"/invoke/{case.skill}", invocation, **key)
            for answer in case.answers:
                if status != 202:
                    break
                interaction = body["interaction"]
                is_question = interaction["kind"] == "question"
                place = "answers" if is_question else "input-requests"
                value = _answer(answer, "answer" if is_question else "value")
                await server.send("POST", f"/{place}/{interaction['id']}", value)
                status, body = await server.send("POST", f"/invoke/{case.skill}", invocation, **key)
            kinds = await server.kinds(body["run_id"]) if "run_id" in body else ()
            return CaseResult(body.get("result"), body.get("code"), kinds)


class A2AEnvironment:
    """Served, and sent messages of one version of A2A."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.name = f"over A2A {version}"

    async def run(self, agent: A2AAgent[Any, Any], case: Case) -> CaseResult:
        """See `Place`."""
        async with _served(agent, case) as server:
            task = await self._send(server, [{"data": {"skill": case.skill, "arguments": case.arguments}}])
            for answer in case.answers:
                if task["status"]["state"] != "TASK_STATE_INPUT_REQUIRED":
                    break
                task = await self._send(
                    server, _parts(answer), task["id"], declined=isinstance(answer, Decline)
                )
            is_done = task["status"]["state"] == "TASK_STATE_COMPLETED"
            code = None if is_done else task.get("metadata", {}).get("code")
            was_run = task["status"]["state"] != "TASK_STATE_REJECTED"
            kinds = await server.kinds(task["id"]) if was_run else ()
            return CaseResult(_result(task) if is_done else None, code, kinds)

    async def _send(
        self, server: _Server, parts: list[JSONObject], task_id: str | None = None, *, declined: bool = False
    ) -> dict[str, Any]:
        message: JSONObject = {"messageId": "m", "role": "ROLE_USER", "parts": list(parts)}
        if task_id is not None:
            message["taskId"] = task_id
        if declined:
            message["metadata"] = {"molecule.declined": True}
        is_new = self.version == "1.0"
        if not is_new:
            message = convert.TO_0_3.message(message)
        body: JSONObject = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "SendMessage" if is_new else "message/send",
            "params": {"message": message},
        }
        _, answer = await server.send("POST", "/", body, **({"a2a_version": "1.0"} if is_new else {}))
        if "result" not in answer:
            raise AssertionError(f"the message was refused: {answer}")
        result = answer["result"] if is_new else convert.FROM_0_3.event(answer["result"])
        return cast("dict[str, Any]", result["task"])


def _answer(answer: Any, member: str) -> JSONObject:
    if isinstance(answer, Decline):
        return {"declined": True, "reason": answer.reason}
    return {member: answer.model_dump(mode="json") if isinstance(answer, BaseModel) else answer}


def _parts(answer: Any) -> list[JSONObject]:
    if isinstance(answer, Decline):
        return [{"text": answer.reason}]
    if isinstance(answer, BaseModel):
        return [{"data": answer.model_dump(mode="json")}]
    return [{"text": answer}] if isinstance(answer, str) else [{"data": answer}]


def _result(task: dict[str, Any]) -> Any:
    for artifact in task.get("artifacts", []):
        if artifact["artifactId"] == "result":
            part = artifact["parts"][0]
            return part["text"] if "text" in part else part["data"]
    return None
