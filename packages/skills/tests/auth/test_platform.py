"""Behind the platform a caller is whom its assertion names, once, and nobody else."""

from collections.abc import Iterator
from typing import Any

import pytest

from molecule_agent.testing import FakePlatform, caller_token
from molecule_skill.auth import AuthError, PlatformAuth, PlatformResolver

WORKSPACE = "22222222-2222-2222-2222-222222222222"
PEER = "workspace:11111111-1111-1111-1111-111111111111"


class Scene:
    """A resolver of one workspace, and the platform that signs for it."""

    def __init__(self, platform: FakePlatform, url: str) -> None:
        self.platform = platform
        self.resolver = PlatformResolver(url, WORKSPACE, clock=platform.clock.time)

    async def resolve(self, sub: str = PEER, *, workspace: str = WORKSPACE, **claims: Any) -> PlatformAuth:
        token = caller_token(self.platform, sub, workspace, **claims)
        return await self.ask({"x-molecule-caller": token})

    async def ask(self, headers: dict[str, str]) -> PlatformAuth:
        return await self.resolver.resolve(None, headers=headers, agent="a")


@pytest.fixture
def scene() -> Iterator[Scene]:
    platform = FakePlatform()
    with platform.serve() as url:
        yield Scene(platform, url)


async def test_a_peer_is_named_with_its_workspace(scene: Scene) -> None:
    found = await scene.resolve()
    assert (found.principal, found.workspace_id) == (PEER, PEER.removeprefix("workspace:"))
    assert scene.resolver.principal_id(found) == PEER


async def test_a_person_has_no_workspace(scene: Scene) -> None:
    assert (await scene.resolve("user:ada")).workspace_id is None


async def test_no_other_header_says_who_calls(scene: Scene) -> None:
    with pytest.raises(AuthError, match="missing"):
        await scene.ask(
            {"x-workspace-id": "a", "authorization": "Bearer b", "x-molecule-principal": "user:c"}
        )


async def test_an_assertion_is_good_once_and_for_this_workspace_only(scene: Scene) -> None:
    token = caller_token(scene.platform, PEER, WORKSPACE)
    await scene.ask({"x-molecule-caller": token})
    with pytest.raises(AuthError, match="used before"):
        await scene.ask({"x-molecule-caller": token})
    with pytest.raises(AuthError, match="another workspace"):
        await scene.resolve(workspace="33333333-3333-3333-3333-333333333333")


async def test_without_the_platforms_keys_nobody_is_let_in(scene: Scene) -> None:
    token = caller_token(scene.platform, PEER, WORKSPACE)
    away = PlatformResolver("http://127.0.0.1:9", WORKSPACE, clock=scene.platform.clock.time)
    with pytest.raises(AuthError) as raised:
        await away.resolve(None, headers={"x-molecule-caller": token}, agent="a")
    assert raised.value.status_code == 503


def test_the_workspace_and_the_platform_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLATFORM_URL", raising=False)
    with pytest.raises(ValueError, match="PLATFORM_URL"):
        PlatformResolver()
    monkeypatch.setenv("PLATFORM_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WORKSPACE_ID", WORKSPACE)
    assert PlatformResolver().workspace_id == WORKSPACE
