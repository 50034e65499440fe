"""Registration: patient with a platform in trouble, not with one that refuses."""

import stat
from pathlib import Path

import pytest

from molecule_agent.testing import FakePlatform
from molecule_runtime.links import registration, tokens
from molecule_runtime.links.platform_client import PlatformClient
from molecule_runtime.links.registration import RegistrationFailure, RegistrationRequest
from molecule_wire.calls import Registration
from packages.runtime.tests.links.manual_time import ManualTime

CARD = RegistrationRequest("http://127.0.0.1:8000", {"name": "agent"}, delivery_mode="poll")


async def register(
    client: PlatformClient, manual_time: ManualTime, announcement: RegistrationRequest = CARD
) -> Registration | RegistrationFailure:
    return await registration.register(client, announcement, manual_time.source)


async def test_what_is_minted_is_kept(
    platform: FakePlatform, client: PlatformClient, manual_time: ManualTime, configs: Path
) -> None:
    secret = registration.new_dispatch_secret()
    full = RegistrationRequest(CARD.url, CARD.agent_card, "poll", secret, replaces_worker="w1")
    answer = await register(client, manual_time, full)
    assert isinstance(answer, Registration)
    assert (configs / ".auth_token").read_text() == answer.auth_token == tokens.get_token()
    assert (configs / ".recovery").read_text() == answer.recovery_secret
    assert stat.S_IMODE((configs / ".recovery").stat().st_mode) == 0o600
    assert platform.requests[0].json == {
        "id": client.workspace_id,
        "url": "http://127.0.0.1:8000",
        "agent_card": {"name": "agent"},
        "delivery_mode": "poll",
        "dispatch_secret": secret,
        "replaces_worker": "w1",
    }
    assert len(secret) == 43
    assert secret != registration.new_dispatch_secret()
    assert isinstance(await register(client, manual_time), Registration)


async def test_a_platform_in_trouble_is_tried_for_ever(
    platform: FakePlatform, client: PlatformClient, manual_time: ManualTime
) -> None:
    platform.drop_next("POST", "/registry/register", times=3)
    platform.fail_next("POST", "/registry/register", 503, times=4)
    platform.fail_next("POST", "/registry/register", 429, retry_after=3)
    assert isinstance(await register(client, manual_time), Registration)
    assert manual_time.slept == [1, 2, 4, 8, 16, 30, 30, 30]


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_after_five_refusals_it_is_hopeless(
    platform: FakePlatform, client: PlatformClient, manual_time: ManualTime, status: int
) -> None:
    platform.fail_next("POST", "/registry/register", status, times=9)
    failure = await register(client, manual_time)
    assert isinstance(failure, RegistrationFailure)
    assert (failure.status, failure.is_removed) == (status, False)
    assert manual_time.slept == [1, 2, 4, 8]


async def test_a_removed_workspace_is_not_tried_again(
    platform: FakePlatform, client: PlatformClient, manual_time: ManualTime, workspace_id: str
) -> None:
    platform.delete(workspace_id)
    failure = await register(client, manual_time)
    assert isinstance(failure, RegistrationFailure)
    assert failure.is_removed
    assert manual_time.slept == []


async def test_a_lost_token_is_recovered(
    platform: FakePlatform, client: PlatformClient, manual_time: ManualTime
) -> None:
    first = await register(client, manual_time)
    assert isinstance(first, Registration)
    tokens.save_token("lost")
    second = await register(client, manual_time)
    assert isinstance(second, Registration)
    assert second.auth_token not in ("", first.auth_token)
    assert tokens.get_token() == second.auth_token
    assert tokens.load_recovery_secret() == second.recovery_secret != first.recovery_secret
    assert "Authorization" not in platform.requests[-1].headers


async def test_a_workspace_that_somebody_else_claimed_is_hopeless(
    client: PlatformClient, manual_time: ManualTime, configs: Path
) -> None:
    await register(client, manual_time)
    tokens.clear_cache()
    for name in (".auth_token", ".recovery"):
        (configs / name).unlink()
    failure = await register(client, manual_time)
    assert isinstance(failure, RegistrationFailure)
    assert "claimed already" in failure.sentence


async def test_a_token_that_cannot_be_kept_is_used_all_the_same(
    client: PlatformClient, manual_time: ManualTime, configs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (configs / "file").touch()
    monkeypatch.setenv("CONFIGS_DIR", str(configs / "file"))
    answer = await register(client, manual_time)
    assert isinstance(answer, Registration)
    assert tokens.get_token() == answer.auth_token
