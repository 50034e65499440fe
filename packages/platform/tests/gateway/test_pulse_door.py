"""The short way of a heartbeat answers exactly as the long one, and takes only what it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.principals import Principal
from molecule_platform.services import heartbeats, identity
from molecule_platform.services.feed import Listener

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Answer, Eventually, Visitor

LONG_WAY = {"x-request-id": "the-long-way"}


class Beating:
    """An agent that beats, and a count of how many of its beats went the short way."""

    def __init__(self, visit: Visitor, workspace_id: str, token: str) -> None:
        self.visit = visit
        self.workspace_id = workspace_id
        self.token = token
        self.short = 0

    async def __call__(self, headers: dict[str, str] | None = None, **said: Any) -> Answer:
        body = {"workspace_id": self.workspace_id, "active_tasks": 0, "uptime_seconds": 12, **said}
        return await self.visit("POST", "/registry/heartbeat", body, token=self.token, headers=headers)


@pytest.fixture
async def beating(visit: Visitor, monkeypatch: pytest.MonkeyPatch) -> Beating:
    """An agent whose last beat is fresh for as long as the test takes."""
    monkeypatch.setattr(heartbeats, "KNOWN_SECONDS", 3600.0)
    monkeypatch.setattr(identity, "CACHED_SECONDS", 3600.0)
    agent = Beating(visit, *await visit.agent())
    whole = visit.house._pulse._reply

    def counted(bearer: str, body: bytes) -> Any:
        reply = whole(bearer, body)
        agent.short += reply is not None
        return reply

    monkeypatch.setattr(visit.house._pulse, "_reply", counted)
    for _ in range(2):
        await agent()
    agent.short = 0
    return agent


async def test_a_repeated_beat_is_answered_like_any_other(beating: Beating) -> None:
    short, long = await beating(), await beating(LONG_WAY)
    assert beating.short == 1
    assert short.status == long.status == 200
    assert {**short.json, "server_time": ""} == {**long.json, "server_time": ""}
    same = set(short.headers) - {"x-request-id"}
    assert set(short.headers) == set(long.headers)
    assert {name: short.headers[name] for name in same} == {name: long.headers[name] for name in same}


async def test_a_longer_uptime_is_no_news_and_is_still_written(beating: Beating) -> None:
    await beating(uptime_seconds=99)
    assert beating.short == 1
    await beating.visit.house._staff.heartbeats.flush()
    row = await beating.visit("GET", f"/workspaces/{beating.workspace_id}")
    assert row.json["uptime_seconds"] == 99


@pytest.mark.parametrize(
    "said",
    [
        {"active_tasks": 1},
        {"error_rate": 0.9},
        {"runtime_state": "wedged"},
        {"current_task": "adding"},
        {"runtime_metadata": {"capabilities": {"session": True}}},
        {"workspace_id": "11111111-1111-4111-8111-111111111111"},
        {"active_tasks": "many"},
    ],
)
async def test_anything_new_goes_the_long_way(beating: Beating, said: dict[str, Any]) -> None:
    await beating(**said)
    assert beating.short == 0


@pytest.mark.parametrize(
    "headers",
    [
        LONG_WAY,
        {"x-workspace-id": "11111111-1111-4111-8111-111111111111"},
        {"x-molecule-org-id": "elsewhere"},
        {"origin": "http://evil"},
        {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
        {"cookie": "molecule_session=x"},
    ],
)
async def test_anything_unusual_goes_the_long_way(beating: Beating, headers: dict[str, str]) -> None:
    await beating(headers)
    assert beating.short == 0


async def test_a_paused_agent_and_a_revoked_token_are_told_so(
    beating: Beating, eventually: Eventually
) -> None:
    visit, path = beating.visit, f"/workspaces/{beating.workspace_id}"
    await visit("POST", f"{path}/pause")

    async def is_paused() -> bool:
        return (await beating()).json["paused"] is True

    async def is_revoked() -> bool:
        return (await beating()).status == 401

    await eventually(is_paused)
    for row in (await visit("GET", f"{path}/tokens")).json["tokens"]:
        await visit("DELETE", f"{path}/tokens/{row['id']}")
    await eventually(is_revoked)


async def test_while_somebody_watches_every_beat_is_shown(beating: Beating) -> None:
    house = beating.visit.house
    org_id = (await beating.visit("GET", "/auth/session")).json["org_id"]
    listener = Listener(Principal("user:ann", org_id, frozenset({"org.read"}), "ann"))
    await house._staff.feed.join(listener)
    await beating()
    shown = await listener.take(30)
    assert [event.event_type for event in shown] == ["WORKSPACE_HEARTBEAT"]
    assert beating.short == 0
