"""A value planted in secrets is found nowhere but with the agent it belongs to."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from molecule_agent import RemoteAgentClient
from molecule_platform.cli import main
from tests.spec.platforms import Engine, Platform, Start

CANARY = "canary-7c41e9d2-nobody-may-see-this-value"
# What an agent itself tells of the value: the log keeps it only under names that say what it is.
TOLD = {
    "OPENAI_API_KEY": CANARY,
    "headers": [{"Authorization": f"Bearer {CANARY}"}],
    "text": f"token={CANARY}",
}


def plant(platform: Platform) -> RemoteAgentClient:
    """An agent with the value among its own secrets, from its creation too, and among its organisation's."""
    agent = platform.join("a", secrets={"MADE_WITH": CANARY})
    for path in ("/settings/secrets", "/admin/secrets", f"/workspaces/{agent.workspace_id}/secrets"):
        platform.ok("PUT", path, json={"key": "PLANTED", "value": CANARY})
    platform.ok("PUT", f"/workspaces/{agent.workspace_id}/model", json={"model": "sonnet"})
    assert agent.pull_secrets() == {"MADE_WITH": CANARY, "PLANTED": CANARY, "MODEL_PROVIDER": "sonnet"}
    return agent


def provoke(platform: Platform, agent: RemoteAgentClient) -> list[str]:
    """Everything that might say it: good requests and bad ones, and what was answered to them."""
    own, token = f"/workspaces/{agent.workspace_id}", agent.load_token()
    other = platform.join("b")
    answers = [
        platform.call("PUT", f"{own}/secrets", json={"key": "1 BAD", "value": CANARY}),
        platform.call("PUT", f"{own}/secrets", json={"key": ["PLANTED"], "value": CANARY}),
        platform.call("PUT", f"{own}/secrets", json={"key": "LONG", "value": CANARY * 2000}),
        platform.call("PUT", f"{own}/secrets", data=f'{{"key":"BROKEN","value":"{CANARY}'),
        platform.call("PUT", f"{own}/secrets", token="", json={"key": "K", "value": CANARY}),
        platform.call("PUT", "/settings/secrets", token=token, json={"key": "K", "value": CANARY}),
        platform.call("POST", "/workspaces", json={"name": "x|y", "secrets": {"K": CANARY}}),
        platform.call(
            "POST", "/workspaces", json={"name": "x", "external": True, "secrets": {"K": [CANARY]}}
        ),
        platform.call("GET", f"{own}/secrets/values"),
        platform.call("GET", f"{own}/secrets/values", token=other.load_token()),
        platform.call("GET", f"{own}/secrets/values", headers={"X-Workspace-ID": agent.workspace_id}),
        platform.call("GET", f"{own}/secrets"),
        platform.call("DELETE", f"{own}/secrets/MISSING"),
        platform.call(
            "POST", f"{own}/activity", token, json={"activity_type": "error", "request_body": TOLD}
        ),
        platform.call("POST", f"{own}/activity", token, json={"activity_type": "nonsense", "metadata": TOLD}),
        platform.call("POST", f"{own}/notify", token, json={"message": "done", "attachments": [], **TOLD}),
        platform.call("POST", "/admin/secrets/rotate-key"),
        platform.call("GET", f"{own}/model"),
    ]
    platform.send(agent.workspace_id, "hello")
    return [answer.text for answer in answers]


def lists(platform: Platform, agent: RemoteAgentClient) -> list[str]:
    own = f"/workspaces/{agent.workspace_id}"
    paths = (
        "/events?limit=1000",
        "/workspaces",
        own,
        f"{own}/activity",
        f"{own}/secrets",
        "/settings/secrets",
    )
    shown = [platform.call("GET", path).text for path in (*paths, "/metrics", "/ready", "/admin/liveness")]
    assert '"SECRET_CHANGED"' in shown[0]
    return shown


def commands(platform: Platform, capfd: pytest.CaptureFixture[str]) -> str:
    flags = ("--url", platform.url, "--token", platform.admin_token, "--json")
    for words in (("secret", "list"), ("secret", "list", "--workspace", "a"), ("workspace", "show", "a")):
        assert main.run([*words, *flags]) == 0
    for words in (("workspace", "list"), ("activity", "list", "a"), ("model", "show", "a")):
        assert main.run([*words, *flags]) == 0
    return "".join(capfd.readouterr())


async def _rows(url: str) -> str:
    """Every column of every row, as text."""
    pool = create_async_engine("postgresql+asyncpg://" + url.split("://", 1)[1])
    async with pool.connect() as connection:
        names = await connection.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"))
        found = list[Any]()
        for (name,) in names.all():
            found += (await connection.execute(text(f'SELECT t::text FROM "{name}" t'))).scalars()
    await pool.dispose()
    return "\n".join(found)


def stored(engine: Engine, data: Path, request: pytest.FixtureRequest) -> bytes:
    """The bytes of every file of the house and, on PostgreSQL, the text of every row."""
    files = b"".join(path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file())
    if engine == "sqlite":
        return files
    return files + asyncio.run(_rows(request.getfixturevalue("postgres_database"))).encode()


def forms(value: str) -> list[bytes]:
    """The value as it might stand somewhere: plain, as hex, reversed."""
    plain = value.encode()
    return [plain, plain.hex().encode(), plain[::-1]]


def test_a_planted_value_is_found_nowhere(
    configured: Start, engine: Engine, request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str]
) -> None:
    platform = configured(MOLECULE_A2A_HOLD_SECONDS=0, MOLECULE_ENV="development")
    agent = plant(platform)
    said = provoke(platform, agent) + lists(platform, agent)
    said.append(commands(platform, capfd))
    alive = stored(engine, platform.data_dir, request)
    assert agent.pull_secrets()["PLANTED"] == CANARY
    platform.stop()
    searched = [*(one.encode() for one in said), alive, stored(engine, platform.data_dir, request)]
    searched.append("".join(capfd.readouterr()).encode())
    assert b"PLANTED" in searched[-2], "the search sees what is stored"
    for where in searched:
        assert not [form for form in forms(CANARY) if form in where], where[:2000]


def test_the_search_would_find_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(json.dumps({"value": CANARY}))
    os.sync()
    request: Any = None
    assert CANARY.encode() in stored("sqlite", tmp_path, request)
