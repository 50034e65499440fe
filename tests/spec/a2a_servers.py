"""The three A2A servers under one contract: the gateway (an agent that polls), the SDK's, the asyncio one.

What their agents say, the words of a message choose.
"""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from molecule_a2a import AgentApp, Turn
from molecule_agent import A2AServer
from molecule_platform.testing import servers, serving
from molecule_wire.a2a import text
from molecule_wire.a2a.operations import Dialect
from tests.spec.a2a import Binding, Caller, Polled, polled
from tests.spec.platforms import Platform, Share

SECONDS = 30


class Direct(Caller):
    """Somebody who speaks to an agent's own server, without the platform."""

    @property
    def base(self) -> str:
        return ""


@dataclass(frozen=True)
class OwnServer:
    """An agent's own server, asked as a platform is."""

    url: str

    def call(self, method: str, path: str, token: str | None = None, **request: Any) -> requests.Response:
        """One request."""
        return requests.request(method, self.url + (path or "/"), timeout=SECONDS, **request)


@dataclass
class Server:
    """A server under the contract, and what lets its agent end slow work."""

    make: Callable[[Binding, Dialect], Caller]
    let_go: threading.Event
    url: str
    headers: dict[str, str] = field(default_factory=dict[str, str])

    def caller(self, binding: Binding = "rpc", dialect: Dialect = "1.0") -> Caller:
        return self.make(binding, dialect)


# What the agents do


def worked_by_sdk(let_go: threading.Event) -> Callable[[dict[str, Any]], Any]:
    def answer(payload: dict[str, Any]) -> str:
        words = payload["message"]
        if words == "slow":
            let_go.wait(SECONDS)
        if words == "fail":
            raise RuntimeError("not for others")
        return f"re: {words}"

    return answer


async def work(turn: Turn, words: str) -> object:
    """What every agent of the contract does."""
    if words == "fail":
        raise RuntimeError("not for others")
    if words == "reject":
        return turn.reject("not my work")
    if words == "ask":
        return turn.ask("which city?")
    if words == "message":
        return turn.answer("only a message")
    if words == "wrong":
        return {"a": "dict"}
    if words == "artifact":
        turn.artifact({"artifactId": "a", "parts": [{"text": "whole"}]})
    if words == "chunks":
        turn.artifact({"artifactId": "a", "parts": [{"text": "one "}]})
        for chunk in ("two ", "three"):
            turn.artifact({"artifactId": "a", "parts": [{"text": chunk}]}, append=True)
    return f"re: {words}"


def worked_on_asyncio(let_go: threading.Event) -> Callable[[Turn], Any]:
    async def answer(turn: Turn) -> object:
        words = text.text_of_message(turn.message)
        if words == "slow":
            await asyncio.to_thread(let_go.wait, SECONDS)
        return await work(turn, words)

    return answer


class Worker:
    """The agent behind the gateway: takes messages from its inbox, one after the other."""

    def __init__(self, agent: Polled, let_go: threading.Event) -> None:
        self._agent = agent
        self._let_go = let_go
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(SECONDS)

    def _run(self) -> None:
        base = f"/workspaces/{self._agent.id}/inbox"
        while not self._stopped.is_set():
            taken = self._agent.platform.ok("POST", f"{base}/lease", self._agent.token, json={"wait": 1})
            for item in taken["messages"]:
                self._work(item)

    def _work(self, item: dict[str, Any]) -> None:
        words = item["text"]
        if words == "slow":
            self._let_go.wait(SECONDS)
        if words in ("artifact", "chunks"):
            self._artifact(item, ["whole"] if words == "artifact" else ["one ", "two ", "three"])
        if words == "fail":
            return self._post(item, "fail", {"error": "RuntimeError (ref 1)", "retryable": False})
        answers: dict[str, dict[str, Any]] = {
            "reject": {"text": "not my work", "state": "rejected"},
            "ask": {"text": "which city?", "state": "input-required"},
        }
        return self._post(item, "answer", answers.get(words, {"text": f"re: {words}"}))

    def _artifact(self, item: dict[str, Any], chunks: list[str]) -> None:
        for place, chunk in enumerate(chunks):
            artifact = {"artifactId": "a", "parts": [{"text": chunk}], "append": place > 0}
            self._post(item, "progress", {"artifact": artifact})

    def _post(self, item: dict[str, Any], verb: str, body: dict[str, Any]) -> None:
        path = f"/workspaces/{self._agent.id}/inbox/{item['message_id']}/{verb}"
        told = {"lease_token": item["lease"]["token"], **body}
        answer = self._agent.platform.call("POST", path, self._agent.token, json=told)
        # What was called off while it ran is nobody's any more.
        assert answer.status_code in (200, 409), answer.text


# The servers


@contextmanager
def gateway(platform: Platform, let_go: threading.Event) -> Generator[Server]:
    agent = polled(platform)
    worker = Worker(agent, let_go)
    yield Server(
        agent.caller,
        let_go,
        f"{platform.url}/agents/{agent.id}/",
        {"Authorization": f"Bearer {platform.org_token()}"},
    )
    let_go.set()
    worker.stop()


@contextmanager
def sdk(let_go: threading.Event) -> Generator[Server]:
    with A2AServer("agent-1", "/a2a/inbound", worked_by_sdk(let_go), host="127.0.0.1") as server:
        yield _own(f"http://127.0.0.1:{server.port}", let_go)
        let_go.set()


@contextmanager
def on_asyncio(let_go: threading.Event) -> Generator[Server]:
    port = servers.free_port()
    app = AgentApp(worked_on_asyncio(let_go), {"name": "async"}, url=f"http://127.0.0.1:{port}/")
    with serving.serving(app, port) as url:
        yield _own(url, let_go)
        let_go.set()


def _own(url: str, let_go: threading.Event) -> Server:
    asked: Any = OwnServer(url)
    return Server(lambda binding, dialect: Direct(asked, "", binding, dialect), let_go, url + "/")


KINDS = ("gateway", "sdk", "asyncio")


@contextmanager
def running(kind: str, share: Share, home: Path) -> Generator[Server]:
    """One of the three."""
    let_go = threading.Event()
    if kind == "sdk":
        with sdk(let_go) as server:
            yield server
    elif kind == "asyncio":
        with on_asyncio(let_go) as server:
            yield server
    else:
        with (
            share("sqlite", MOLECULE_A2A_HOLD_SECONDS=30).new_org(home) as platform,
            gateway(platform, let_go) as server,
        ):
            yield server
