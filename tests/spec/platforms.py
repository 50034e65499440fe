"""A whole platform in one process, and its administrator."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any, Literal, Protocol
from uuid import uuid4

import requests
from requests.adapters import HTTPAdapter

from molecule_agent import RemoteAgentClient
from molecule_platform import settings
from molecule_platform.app import Platform as RunningPlatform
from molecule_platform.cli import serving
from molecule_platform.ports.provisioner import Provisioner
from molecule_platform.testing import servers
from tests.spec import documented

# Tests are faster than agents; those of the limits set them.
UNLIMITED = {"RATE_LIMIT": 0, "RATE_LIMIT_ANON": 0}
OPENING_SECONDS = CLOSING_SECONDS = 30
UNHELD_SECONDS = 0.2
GRACE_SECONDS = 1.0

Engine = Literal["sqlite", "postgres"]


@dataclass
class Platform:
    """A running platform and its administrator, who acts in one organisation."""

    running: "Running"
    url: str
    admin_token: str
    data_dir: Path
    homes: Path
    org: str = "default"
    clients: list[RemoteAgentClient] = field(default_factory=list[RemoteAgentClient])
    session: requests.Session = field(default_factory=lambda: _session())

    def stop(self) -> None:
        """Close the platform and everybody's connections to it; once is enough, twice does no harm."""
        self.leave()
        self.session.close()
        self.running.stop()

    def leave(self) -> None:
        """Close the connections of the clients; the platform goes on."""
        for client in self.clients:
            client.close()

    @contextmanager
    def new_org(self, homes: Path) -> Generator["Platform"]:
        """The same platform, with the administrator in an organisation that is empty."""
        org = self.ok("POST", "/orgs", json={"name": f"org {uuid4()}"})["slug"]
        platform = replace(self, org=org, homes=homes, clients=[])
        yield platform
        platform.leave()

    def headers(self, token: str | None = None) -> dict[str, str]:
        """What a request shows: the administrator's token and organisation, another token, or nothing."""
        if token in (None, self.admin_token):
            return {"Authorization": f"Bearer {self.admin_token}", "X-Molecule-Org-Id": self.org}
        return {"Authorization": f"Bearer {token}"} if token else {}

    def org_token(self, *scopes: str) -> str:
        """A token of the organisation, for a client that cannot name one; it may do everything there."""
        return self.ok("POST", "/org/tokens", json={"scopes": list(scopes) or ["org"]})["auth_token"]

    def call(self, method: str, path: str, token: str | None = None, **request: Any) -> requests.Response:
        """A request with the administrator's token, or another one, or with `token=""` none."""
        headers = self.headers(token) | dict(request.pop("headers", {}))
        request.setdefault("timeout", 40)
        answer = self.session.request(method, self.url + path, headers=headers, **request)
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


def _session() -> requests.Session:
    """Keeps its connections, for the threads of a test, and sends no cookie that the test does not name."""
    session = requests.Session()
    session.trust_env = False
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    session.mount("http://", HTTPAdapter(pool_maxsize=64))
    return session


def message(text: str, message_id: str | None = None, role: str = "user") -> dict[str, Any]:
    """An A2A 0.3 message/send body."""
    content: dict[str, Any] = {"role": role, "parts": [{"kind": "text", "text": text}]}
    if message_id is not None:
        content["messageId"] = message_id
    return {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": content}}


class Share(Protocol):
    """The one platform of an engine with the settings given."""

    def __call__(self, engine: Engine, **flags: Any) -> Platform: ...


class Start(Protocol):
    """Opens a platform with the settings given."""

    def __call__(self, provisioner: Provisioner | None = None, **flags: Any) -> Platform: ...


def opened(home: Path, flags: dict[str, Any], provisioner: Provisioner | None = None) -> Platform:
    """A running platform with its data below `home`."""
    port, data_dir = servers.free_port(), home / "data"
    running = Running({"MOLECULE_DATA_DIR": data_dir, "PORT": port, **UNLIMITED, **flags}, provisioner)
    running.start()
    token = (data_dir / "admin.token").read_text().strip()
    return Platform(running, f"http://127.0.0.1:{port}", token, data_dir, home / "homes")


class Running:
    """A platform with its server on a thread of its own."""

    def __init__(self, flags: dict[str, Any], provisioner: Provisioner | None = None) -> None:
        self._flags = flags
        self._provisioner = provisioner
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(OPENING_SECONDS), "the platform did not open"
        if self._problem is not None:
            raise self._problem

    def stop(self) -> None:
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(CLOSING_SECONDS)
        assert not self._thread.is_alive(), "the platform did not close"

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as problem:  # noqa: BLE001 - handed to the test that waits
            self._problem = problem
            self._ready.set()

    async def _serve(self) -> None:
        chosen, _warnings = settings.load(self._flags, {}, {})
        platform = await RunningPlatform.open(chosen, self._provisioner)
        server = serving.make_server(platform)
        try:
            await server.start(serving.listen("127.0.0.1", chosen.port))
            self._loop = asyncio.get_running_loop()
            self._ready.set()
            await self._stopping.wait()
            await server.stop(GRACE_SECONDS)
        finally:
            await platform.close()
