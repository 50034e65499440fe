"""A whole house in one process, and its administrator."""

import asyncio
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import requests
import uvicorn

from molecule_agent import RemoteAgentClient
from molecule_platform import settings
from molecule_platform.app import House
from molecule_platform.cli import serving
from molecule_platform.ports.provisioner import Provisioner
from tests.spec import documented

OPENING_SECONDS = CLOSING_SECONDS = 30

Engine = Literal["sqlite", "postgres"]


@dataclass
class Platform:
    """A running house and its administrator."""

    running: "Running"
    url: str
    admin_token: str
    data_dir: Path
    homes: Path
    clients: list[RemoteAgentClient] = field(default_factory=list[RemoteAgentClient])

    def stop(self) -> None:
        """Close the house and everybody's connections to it; once is enough, twice does no harm."""
        for client in self.clients:
            client.close()
        self.running.stop()

    def call(self, method: str, path: str, token: str | None = None, **request: Any) -> requests.Response:
        """A request with the administrator's token, or another one, or with `token=""` none."""
        headers = dict(request.pop("headers", {}))
        shown = self.admin_token if token is None else token
        if shown:
            headers["Authorization"] = f"Bearer {shown}"
        request.setdefault("timeout", 40)
        answer = requests.request(method, self.url + path, headers=headers, **request)
        if not request.get("stream"):
            documented.check(answer)
        return answer

    def ok(self, method: str, path: str, token: str | None = None, **request: Any) -> Any:
        """The body of a request that must succeed."""
        answer = self.call(method, path, token, **request)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def create(self, name: str, parent: str | None = None, **fields: Any) -> dict[str, Any]:
        """A new external workspace."""
        body = {"name": name, "runtime": "external", "parent_id": parent, **fields}
        return self.ok("POST", "/workspaces", json=body)

    def client(self, workspace_id: str, home: str = "home", **options: Any) -> RemoteAgentClient:
        """An agent of the workspace with its own token directory."""
        folder = self.homes / home / workspace_id
        client = RemoteAgentClient(workspace_id, self.url, token_dir=folder, **options)
        self.clients.append(client)
        return client

    def join(self, name: str, parent: str | None = None, **fields: Any) -> RemoteAgentClient:
        """A new workspace whose agent has registered."""
        created = self.create(name, parent, **fields)
        client = self.client(created["id"], agent_card={"name": name, "skills": []})
        client.register()
        return client

    def send(self, target: str, text: str, token: str | None = None, **request: Any) -> requests.Response:
        """A user's message over the A2A path."""
        body = message(text)
        return self.call("POST", f"/workspaces/{target}/a2a", token, json=body, **request)


def message(text: str, message_id: str | None = None, role: str = "user") -> dict[str, Any]:
    """An A2A 0.3 message/send body."""
    content: dict[str, Any] = {"role": role, "parts": [{"kind": "text", "text": text}]}
    if message_id is not None:
        content["messageId"] = message_id
    return {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": content}}


class Start(Protocol):
    """Opens a house with the settings given."""

    def __call__(self, provisioner: Provisioner | None = None, **flags: Any) -> Platform: ...


class Announcing(uvicorn.Server):
    """Uvicorn that says when it listens."""

    def __init__(self, config: uvicorn.Config, listening: threading.Event) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening.set()


class Running:
    """A house with its server on a thread of its own."""

    def __init__(self, flags: dict[str, Any], provisioner: Provisioner | None = None) -> None:
        self._flags = flags
        self._provisioner = provisioner
        self._ready = threading.Event()
        self._server: uvicorn.Server | None = None
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(OPENING_SECONDS), "the house did not open"
        if self._problem is not None:
            raise self._problem

    def stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
        self._thread.join(CLOSING_SECONDS)
        assert not self._thread.is_alive(), "the house did not close"

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as problem:  # noqa: BLE001 - handed to the test that waits
            self._problem = problem
            self._ready.set()

    async def _serve(self) -> None:
        chosen, _warnings = settings.load(self._flags, {}, {})
        house = await House.open(chosen, self._provisioner)
        config = serving.config(house)
        config.port = chosen.port
        config.timeout_graceful_shutdown = 1
        self._server = Announcing(config, self._ready)
        try:
            await self._server.serve()
        finally:
            await house.close()
