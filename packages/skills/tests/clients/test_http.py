"""Calls over HTTP: resumed when cut, cancelled when given up, and no credential of the caller on the wire."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from molecule_skill.a2a_client import HttpA2AClient
from molecule_skill.agent import A2AAgent
from molecule_skill.auth import APIKeyAuth, APIKeyAuthResolver
from molecule_skill.context import RunContext
from molecule_skill.decorator import skill
from molecule_skill.discovery import DiscoveredAgent, InMemoryDiscovery
from molecule_skill.errors import (
    A2AError,
    CallTimeout,
    GrantDelegationDenied,
    MissingScopes,
    SkillInputError,
    SkillInvocationError,
    SkillNotFound,
)
from molecule_skill.local_context import LocalRunContext
from packages.skills.tests.auth.tokens import digest
from packages.skills.tests.clients.agents import Forecaster, Planner
from packages.skills.tests.serve.sample import Sample
from packages.skills.tests.serve.served import Served, serving, until


@pytest.fixture(scope="module")
async def served() -> AsyncIterator[Served]:
    async with serving() as one:
        yield one


@pytest.fixture
async def client() -> AsyncIterator[HttpA2AClient]:
    made = HttpA2AClient(allow_private=True)
    yield made
    await made.close()


async def test_a_call_gives_result_events_and_artifacts(served: Served, client: HttpA2AClient) -> None:
    found = await client.call(served.url, "write", args={"name": "a.txt", "size": 2})
    assert found.result == 20
    assert "artifact" in [event.kind for event in found.events]
    assert [(ref.name, ref.size_bytes) for ref in found.artifacts] == [("a.txt", 20)]
    assert found.run_id
    assert (await served.http.get(f"/runs/{found.run_id}")).json()["state"] == "succeeded"


@pytest.mark.parametrize(
    ("name", "args", "kind", "status"),
    [
        ("absent", {}, SkillNotFound, 404),
        ("add", {"a": "x"}, SkillInputError, 400),
        ("guarded", {}, MissingScopes, 403),
        ("fail", {"message": "boom"}, SkillInvocationError, 500),
    ],
)
async def test_an_error_is_the_class_that_the_callee_meant(
    served: Served, client: HttpA2AClient, name: str, args: dict[str, Any], kind: type[Exception], status: int
) -> None:
    with pytest.raises(kind) as raised:
        await client.call(served.url, name, args=args)
    problem = raised.value
    assert isinstance(problem, A2AError)
    assert (problem.status_code, problem.url) == (status, served.url)
    if isinstance(problem, MissingScopes):
        assert problem.missing == ("secret.read",)


async def test_a_run_that_asks_is_waited_for(served: Served, client: HttpA2AClient) -> None:
    calling = asyncio.ensure_future(client.call(served.url, "ask", args={"question": "?"}))

    async def answered() -> bool:
        for record in await served.app.gate.runs(None, limit=3):
            for interaction in await served.app.gate.reader(record.run_id, None).interactions():
                if interaction.state == "pending":
                    return (
                        await served.http.post(f"/answers/{interaction.id}", json={"answer": "y"})
                    ).status_code == 200
        return False

    await until(answered)
    assert (await calling).result == "answer: y"


async def test_giving_up_cancels_the_remote_run(served: Served, client: HttpA2AClient) -> None:
    with pytest.raises(CallTimeout):
        await client.call(served.url, "wait", args={"seconds": 60}, timeout=0.3)
    calling = asyncio.ensure_future(client.call(served.url, "wait", args={"seconds": 60}))

    async def runs() -> bool:
        return (await served.app.gate.runs(None, limit=1))[0].state == "running"

    await until(runs)
    await asyncio.sleep(0.05)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling

    async def both_cancelled() -> bool:
        found = [one for one in await served.app.gate.runs(None, limit=2) if one.new.skill == "wait"]
        return [one.state for one in found] == ["cancelled", "cancelled"]

    await until(both_cancelled)


async def test_names_come_from_discovery_and_are_dropped_on_failure(served: Served) -> None:
    card = Sample.card()
    known = InMemoryDiscovery([DiscoveredAgent("sample", served.url, card)])
    client = HttpA2AClient(discovery=known, allow_private=True)
    assert (await client.call("sample", "shout", args={"text": "a"})).result == "A"
    with pytest.raises(KeyError):
        await client.call("nobody", "shout")
    client._resolved["sample"] = ("http://127.0.0.1:9", 1e18)
    with pytest.raises(A2AError):
        await client.call("sample", "shout", args={"text": "a"})
    assert (await client.call("sample", "shout", args={"text": "a"})).result == "A"
    await client.close()


async def test_an_address_of_a_private_network_is_refused() -> None:
    client = HttpA2AClient()
    for url in ("http://127.0.0.1:8000", "http://169.254.169.254", "http://[::1]:1", "http://10.0.0.1"):
        with pytest.raises(A2AError, match="private network") as raised:
            await client.call(url, "x")
        assert raised.value.code == "unsafe-url"
    await client.close()


async def test_a_grant_is_not_passed_on_unverified(client: HttpA2AClient) -> None:
    with pytest.raises(GrantDelegationDenied):
        await client.call("http://127.0.0.1:9", "x", grant="token")


async def test_an_agent_that_is_not_there_is_named(client: HttpA2AClient) -> None:
    with pytest.raises(A2AError) as raised:
        await client.call("http://127.0.0.1:9", "x", timeout=10)
    assert raised.value.code == "peer-unreachable"


Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter, str], Awaitable[None]]


class Wire:
    """A server that records every byte it is sent and answers by hand."""

    def __init__(self, answer: Answering) -> None:
        self.requests: list[str] = []
        self._answer = answer
        self.url = ""

    async def __aenter__(self) -> "Wire":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *problem: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(
            (
                int(line.split(b":")[1])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length")
            ),
            0,
        )
        text = (head + await reader.readexactly(size)).decode()
        self.requests.append(text)
        await self._answer(reader, writer, text)
        writer.close()


def frame(number: int, data: dict[str, Any]) -> bytes:
    return f"id: run_r:{number}\nevent: message\ndata: {json.dumps({'run_id': 'run_r', **data})}\n\n".encode()


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


async def test_a_cut_stream_is_taken_up_where_it_was_cut(client: HttpA2AClient) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: str) -> None:
        events = [
            frame(n, {"type": "event", "seq": n, "kind": "progress", "payload": {"message": str(n)}})
            for n in range(1, 5)
        ]
        done = frame(5, {"type": "result", "result": "x", "artifacts": [], "grant_id": None})
        if text.startswith("POST"):
            writer.write(STREAM + events[0] + events[1] + events[2][:20])
        elif "last-event-id: run_r:2" in text.lower():
            writer.write(STREAM + events[2])
        else:
            writer.write(STREAM + events[3] + done + b"data: [DONE]\n\n")

    async with Wire(answer) as wire:
        found = await client.call(wire.url, "x")
    assert [event.payload["message"] for event in found.events] == ["1", "2", "3", "4"]
    assert found.result == "x"
    assert [text.split(" ")[0] for text in wire.requests] == ["POST", "GET", "GET"]


async def test_no_credential_of_the_caller_reaches_a_callee() -> None:
    """Everything that the caller has is a marked text; none of them is in the recorded traffic."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: str) -> None:
        done = frame(1, {"type": "result", "result": {"city": "x", "degrees": 1}, "artifacts": []})
        writer.write(STREAM + done + b"data: [DONE]\n\n")

    keys = [{"id": "me", "sha256": digest("caller-bearer"), "scopes": ["marked-scope"]}]

    class Caller(A2AAgent[Any, Any]):
        name = "caller"
        auth_model = APIKeyAuth
        auth_resolver = APIKeyAuthResolver(keys)
        required_secrets = ("LLM_KEY",)

        @skill()
        async def go(self, ctx: RunContext[Any], target: str) -> str:
            """Use the secret, then call somebody."""
            assert ctx.secret("LLM_KEY") == "marked-llm-key"
            return str((await ctx.call(target, "tomorrow", args={"city": "x"})).result["city"])

    async with Wire(answer) as wire:
        own = HttpA2AClient(allow_private=True, credentials={"http://127.0.0.1:1": "marked-other-origin"})
        async with serving(Caller(), secrets={"LLM_KEY": "marked-llm-key"}, a2a=own) as served:
            headers = {
                "authorization": "Bearer caller-bearer",
                "cookie": "session=marked-cookie",
                "x-molecule-grant": "marked-grant",
            }
            body = {
                "arguments": {"target": wire.url},
                "llm_creds": {"key": "marked-creds"},
                "cp_jwt": "marked-jwt",
            }
            done = await served.http.post("/invoke/go", json=body, headers=headers)
            assert done.json()["result"] == "x"
        await own.close()
    traffic = "\n".join(wire.requests)
    assert "/invoke/tomorrow" in traffic
    assert "marked" not in traffic
    assert "caller-bearer" not in traffic
    assert "authorization" not in traffic.lower()


async def test_a_token_goes_to_its_own_origin_and_a_redirect_takes_nothing_along() -> None:
    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: str) -> None:
        writer.write(
            f"HTTP/1.1 307 Go\r\nlocation: {other.url}/invoke/x\r\ncontent-length: 0\r\n\r\n".encode()
        )

    async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: str) -> None:
        writer.write(b"HTTP/1.1 204 No\r\n\r\n")

    async with Wire(nothing) as other, Wire(redirect) as first:
        client = HttpA2AClient(credentials={first.url: "own-token"}, allow_private=True)
        with pytest.raises(A2AError) as raised:
            await client.call(first.url, "x")
        assert raised.value.status_code == 307
        assert "Bearer own-token" in first.requests[0]
        assert other.requests == []
        await client.close()


async def test_two_agents_over_http_discover_and_call(served: Served) -> None:
    async with serving(Forecaster()) as there:
        known = InMemoryDiscovery([DiscoveredAgent("forecaster", there.url, Forecaster.card())])
        client = HttpA2AClient(discovery=known, allow_private=True)
        ctx = LocalRunContext(auth=APIKeyAuth(api_key_id="x"), a2a=client, discover=known)
        found = await ctx.discover.find_agents(skill="tomorrow")
        result = await Planner().invoke("plan", ctx, city="Basel", target=found[0].name)
        assert result == "Basel: 21.5"
        with pytest.raises(A2AError):
            await client.call("forecaster", "look")
        await client.close()
