"""What the platform's own tests share: a clock, a way to wait, rows to start from, and an open house."""

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pytest

from molecule_platform.app import Platform
from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.settings import Settings, loading
from molecule_wire import ids

NOON = datetime(2026, 5, 2, 12, 0, tzinfo=UTC)
ORG = "org-one"
PATIENCE_SECONDS = 30.0

Eventually = Callable[[Callable[[], Awaitable[bool] | bool]], Awaitable[None]]
MakeMessage = Callable[..., Message]
MakeWorkspace = Callable[..., Workspace]


class FakeClock:
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.time = NOON

    def now(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> datetime:
        self.time += timedelta(seconds=seconds)
        return self.time


def _make_message(**changes: Any) -> Message:
    message_id = str(changes.get("id", ids.uuid7()))
    said = changes.pop("said", "hello")
    dialect = changes.get("dialect", "0.3")
    method = "message/send" if dialect == "0.3" else "SendMessage"
    role = "user" if dialect == "0.3" else "ROLE_USER"
    part = {"kind": "text", "text": said} if dialect == "0.3" else {"text": said}
    inner = {"messageId": f"ref-{message_id}", "role": role, "parts": [part]}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": inner}}
    defaults: dict[str, Any] = {
        "id": message_id,
        "org_id": ORG,
        "seq": 1,
        "target_id": "nobody",
        "caller": "user:ann",
        "caller_name": "Ann",
        "kind": "message",
        "method": method,
        "dialect": dialect,
        "body": json.dumps(body).encode(),
        "body_hash": f"hash-{message_id}",
        "message_ref": f"ref-{message_id}",
        "context_id": f"context-{message_id}",
        "priority": 50,
        "max_attempts": 3,
        "created_at": NOON,
        "deadline_at": NOON + timedelta(hours=24),
        "task_id": message_id,
        "activity_id": f"activity-{message_id}",
    }
    defaults["waits_until"] = changes.get("deadline_at", defaults["deadline_at"])
    return Message(**(defaults | changes))


def _make_workspace(**changes: Any) -> Workspace:
    defaults: dict[str, Any] = {
        "id": str(uuid4()),
        "org_id": ORG,
        "name": "Ada",
        "created_at": NOON,
        "updated_at": NOON,
    }
    return Workspace(**(defaults | changes))


@pytest.fixture(scope="session")
def make_message() -> MakeMessage:
    """A message row with sensible members; `said` is its text."""
    return _make_message


@pytest.fixture(scope="session")
def make_workspace() -> MakeWorkspace:
    """A workspace row with sensible members."""
    return _make_workspace


@pytest.fixture
def clock() -> FakeClock:
    """Noon, until the test moves it."""
    return FakeClock()


@pytest.fixture(scope="session")
def eventually() -> Eventually:
    """Wait until something holds, and fail when it never does."""

    async def wait(holds: Callable[[], Awaitable[bool] | bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            held = holds()
            if (await held) if isinstance(held, Awaitable) else held:
                return
            assert time.monotonic() < deadline, f"waited {PATIENCE_SECONDS} s for it"
            await asyncio.sleep(0.005)

    return wait


ADMIN_TOKEN = "the-administrator-s-token"


@dataclass(frozen=True)
class Answer:
    """What the house answered."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def code(self) -> str | None:
        """The code of a refusal; at the standard A2A base it is in the details, if there is one."""
        error: Any = self.json.get("error")
        if isinstance(error, str) or "code" in self.json:
            return self.json.get("code")
        details: list[Any] = error.get("data", error.get("details")) or []
        return next(
            (info["metadata"]["code"] for info in details if "code" in info.get("metadata", ())), None
        )


class Knock:
    """One ASGI request to the platform, without a socket. `leaves` is set when the caller disconnects."""

    def __init__(self, method: str, target: str, headers: Mapping[str, str], content: bytes = b"") -> None:
        path, _, query = target.partition("?")
        self.scope = {
            "type": "http",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
        }
        self._content: bytes | None = content
        self.leaves = asyncio.Event()
        self.started = asyncio.Event()
        self.status = 0
        self.lines: dict[str, str] = {}
        self.said: asyncio.Queue[bytes | None] = asyncio.Queue()
        # Cleared, the client takes nothing of a stream.
        self.reads = asyncio.Event()
        self.reads.set()

    async def receive(self) -> dict[str, Any]:
        content, self._content = self._content, None
        if content is not None:
            return {"type": "http.request", "body": content}
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self.status = event["status"]
            self.lines = {name.decode(): value.decode("latin-1") for name, value in event["headers"]}
            self.started.set()
            return
        await self.reads.wait()
        is_last, body = not event.get("more_body", False), event["body"]
        if body or (is_last and "content-length" in self.lines):
            self.said.put_nowait(b"" if self.scope["method"] == "HEAD" else body)
        if is_last and "content-length" not in self.lines:
            self.said.put_nowait(None)


class Visitor:
    """Speaks to the house as a web server would, without a socket; as the administrator of one org."""

    def __init__(self, platform: Platform, org: str) -> None:
        self.platform = platform
        self.org = org

    def headers(self, token: str | None = ADMIN_TOKEN) -> dict[str, str]:
        """What a request shows: the administrator's token and organisation, another token, or nothing."""
        sent = {"host": "platform"}
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        return sent | ({"x-molecule-org-id": self.org} if token == ADMIN_TOKEN else {})

    def knocks(self, method: str, target: str, headers: Mapping[str, str]) -> Knock:
        """A request that the test has answered itself."""
        return Knock(method, target, headers)

    async def __call__(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        token: str | None = ADMIN_TOKEN,
        headers: Mapping[str, str] | None = None,
        leaves: asyncio.Event | None = None,
    ) -> Answer:
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"content-type": "application/json"}
        knock = Knock(method, target, self.headers(token) | kind | dict(headers or {}), raw)
        knock.leaves = leaves or knock.leaves
        await self.platform(knock.scope, knock.receive, knock.send)
        return Answer(knock.status, knock.lines, knock.said.get_nowait() or b"")

    async def workspace(self, name: str = "Ada", **more: Any) -> tuple[str, str]:
        """A new workspace: its id and its token. Nobody can claim it, so it is seen by all who may."""
        body = {"name": name, "runtime": "external", "claimable": False, **more}
        made = (await self("POST", "/workspaces", body)).json
        return made["id"], made["connection"]["auth_token"]

    async def agent(self, name: str = "Ada", url: str = "", **more: Any) -> tuple[str, str]:
        """A workspace whose agent has registered."""
        workspace_id, token = await self.workspace(name)
        body = {"id": workspace_id, "url": url, "agent_card": {"name": name}, **more}
        assert (await self("POST", "/registry/register", body, token=token)).status == 200
        return workspace_id, token


OpenHouse = Callable[[], Coroutine[Any, Any, Visitor]]


def _settings(data: Path, empty_database: Path) -> Settings:
    """A house on SQLite that may call agents on this machine."""
    data.mkdir()
    shutil.copy(empty_database, data / "molecule.db")
    flags: dict[str, object] = {
        "MOLECULE_DATA_DIR": str(data),
        "ADMIN_TOKEN": ADMIN_TOKEN,
        "MOLECULE_ALLOW_PRIVATE_URLS": "loopback",
        "MOLECULE_ALLOWED_HOSTS": "platform",
        "MOLECULE_MAX_BODY_BYTES": "65536",
        "MOLECULE_A2A_MAX_BODY_BYTES": "131072",
        "MOLECULE_A2A_HOLD_SECONDS": "5",
        "RATE_LIMIT": "0",
        "RATE_LIMIT_ANON": "0",
    }
    settings, _ = loading.load(flags, {})
    return settings


@pytest.fixture(scope="module")
async def shared_house(
    tmp_path_factory: pytest.TempPathFactory, empty_database: Path
) -> AsyncIterator[Platform]:
    """The house of all tests of a module."""
    platform = await Platform.open(_settings(tmp_path_factory.mktemp("shared") / "data", empty_database))
    yield platform
    await platform.close()


@pytest.fixture
async def visit(shared_house: Platform) -> Visitor:
    """Somebody who knocks at the house of the module, in an organisation of this test alone."""
    org = f"org-{uuid4()}"
    visitor = Visitor(shared_house, "default")
    assert (await visitor("POST", "/orgs", {"name": org, "slug": org})).status == 201
    return Visitor(shared_house, org)


@pytest.fixture
def open_house(tmp_path: Path, empty_database: Path) -> OpenHouse:
    """Opens a house of the test's own, in the event loop where it is called; the test closes it."""

    async def open_() -> Visitor:
        return Visitor(await Platform.open(_settings(tmp_path / "data", empty_database)), "default")

    return open_


@pytest.fixture
async def breaking(open_house: OpenHouse) -> AsyncIterator[Visitor]:
    """Somebody with a house of their own, because the test drains it, makes it forget, or takes its keys."""
    visitor = await open_house()
    yield visitor
    await visitor.platform.close()
