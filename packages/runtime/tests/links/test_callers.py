"""Caller verification: forged, expired, foreign and replayed assertions are refused."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from molecule_agent.testing import FakePlatform, caller_token
from molecule_runtime.domain.turns import Caller, Delegation
from molecule_runtime.links import callers
from molecule_runtime.links.callers import (
    CallerAccepted,
    CallerPolicy,
    CallerRefused,
    CallerVerifier,
    PlatformKeys,
)
from molecule_runtime.links.platform_client import PlatformClient
from molecule_runtime.links.time_source import TimeSource
from molecule_wire import JSON, jsontext
from packages.runtime.tests.links.manual_time import ManualTime, until

LOCAL, FAR = "127.0.0.1", "10.0.0.7"
PEER = "workspace:11111111-1111-1111-1111-111111111111"


class Scene:
    """A verifier of one workspace, and the platform that signs for it."""

    def __init__(self, platform: FakePlatform, client: PlatformClient, manual_time: ManualTime) -> None:
        self.platform = platform
        self.client = client
        self.time = TimeSource(monotonic=lambda: manual_time.now, time=platform.clock.time)
        self.keys = PlatformKeys(client.platform_url, client.jwks, self.time)

    def verifier(
        self, policy: CallerPolicy = "auto", secret: str = "", platform_url: str = ""
    ) -> CallerVerifier:
        return CallerVerifier(
            self.client.workspace_id,
            self.keys,
            platform_url or self.client.platform_url,
            policy=policy,
            dispatch_secret=secret,
            time_source=self.time,
        )

    def headers(self, sub: str = PEER, **claims: Any) -> dict[str, str]:
        claims = {"issuer": self.client.platform_url, **claims}
        return {"x-molecule-caller": caller_token(self.platform, sub, self.client.workspace_id, **claims)}

    def fetches(self) -> int:
        return sum(request.path == "/.well-known/jwks.json" for request in self.platform.requests)


@pytest.fixture
async def scene(
    platform: FakePlatform, client: PlatformClient, manual_time: ManualTime
) -> AsyncIterator[Scene]:
    made = Scene(platform, client, manual_time)
    yield made
    await made.keys.close()


def message(message_id: str) -> bytes:
    body: JSON = {
        "jsonrpc": "2.0",
        "method": "message/send",
        "params": {"message": {"messageId": message_id}},
    }
    return jsontext.encode(body)


async def refusal(
    verifier: CallerVerifier, headers: dict[str, str], body: bytes = b"", peer: str = FAR
) -> tuple[int, str]:
    result = await verifier.verify(peer, headers, body)
    assert isinstance(result, CallerRefused)
    return result.status, result.code


async def test_a_good_assertion_names_the_caller(scene: Scene) -> None:
    context: JSON = {"id": "d1", "root": "r", "depth": 2, "calls_left": 5, "chain": ["a", "b"]}
    headers = scene.headers(name="Peer", org="o", message_id="m1", ctx="c1", row="row1", delegation=context)
    verifier = scene.verifier("always")
    accepted = await verifier.verify(FAR, headers | {"x-molecule-message-id": "row1"}, message("m1"))
    assert isinstance(accepted, CallerAccepted)
    assert accepted.caller == Caller(PEER, "Peer", "o", verified=True)
    assert accepted.delegation == Delegation("d1", source_workspace_id=PEER.partition(":")[2])
    assert accepted.claims["delegation"] == context
    assert accepted.claims["context_id"] == "c1"


@pytest.mark.parametrize(
    "claims",
    [
        {"issuer": "http://another.example"},
        {"aud": "workspace:another"},
        {"lifetime": -60},
        {"lifetime": 301},
        {"exp": None},
        {"jti": None},
        {"nbf": 9_999_999_999, "exp": 9_999_999_999 + 60, "iat": 9_999_999_999},
    ],
    ids=str,
)
async def test_a_bad_assertion_is_refused_under_each_policy_that_checks(
    scene: Scene, claims: dict[str, Any]
) -> None:
    aud = claims.pop("aud", scene.client.workspace_id)
    claims = {"issuer": scene.client.platform_url, **claims}
    headers = {"x-molecule-caller": caller_token(scene.platform, PEER, aud, **claims)}
    for verifier in (scene.verifier("always"), scene.verifier("auto")):
        assert await refusal(verifier, headers, peer=LOCAL) == (401, "caller-assertion-invalid")


async def test_a_forged_assertion_is_refused(scene: Scene) -> None:
    token = scene.headers()["x-molecule-caller"]
    head, _, signature = token.rpartition(".")
    forged = ("A" if signature[0] != "A" else "B") + signature[1:]
    for wrong in (f"{head}.{forged}", "rubbish", "a.b.c"):
        headers = {"x-molecule-caller": wrong}
        assert await refusal(scene.verifier(), headers) == (401, "caller-assertion-invalid")


async def test_another_platforms_key_is_refused(scene: Scene) -> None:
    headers = scene.headers()
    token = caller_token(FakePlatform(), PEER, scene.client.workspace_id, issuer=scene.client.platform_url)
    assert await refusal(scene.verifier(), {"x-molecule-caller": token}) == (401, "caller-assertion-invalid")
    assert isinstance(await scene.verifier().verify(FAR, headers, b""), CallerAccepted)


async def test_an_assertion_is_good_once(scene: Scene) -> None:
    verifier, headers = scene.verifier(), scene.headers()
    assert isinstance(await verifier.verify(FAR, headers, b""), CallerAccepted)
    assert await refusal(verifier, headers) == (401, "caller-assertion-invalid")


async def test_an_assertion_is_good_for_its_message_alone(scene: Scene) -> None:
    verifier = scene.verifier()
    headers = scene.headers(message_id="m1")
    assert await refusal(verifier, headers, message("m2")) == (401, "caller-assertion-invalid")
    row = scene.headers(row="row1") | {"x-molecule-message-id": "row2"}
    assert await refusal(verifier, row) == (401, "caller-assertion-invalid")
    head = await verifier.verify_head(FAR, scene.headers(message_id="m1"))
    assert isinstance(head, CallerAccepted)
    assert verifier.check_message_id(head, "m1") is head
    assert verifier.check_message_id(head, "") is head, "it is compared when both exist"
    assert isinstance(verifier.check_message_id(head, "m2"), CallerRefused)


@pytest.mark.parametrize(
    ("policy", "peer", "platform_url", "is_served"),
    [
        ("always", LOCAL, "http://127.0.0.1:1", False),
        ("auto", LOCAL, "http://127.0.0.1:1", True),
        ("auto", FAR, "http://127.0.0.1:1", False),
        ("auto", LOCAL, "https://platform.example", False),
        ("off", FAR, "https://platform.example", True),
    ],
)
async def test_who_is_served_without_an_assertion(
    scene: Scene, policy: CallerPolicy, peer: str, platform_url: str, is_served: bool
) -> None:
    verifier = scene.verifier(policy, "secret", platform_url)
    result = await verifier.verify(peer, {}, b"")
    if is_served:
        assert result == CallerAccepted()
    else:
        assert isinstance(result, CallerRefused)
        assert (result.status, result.code) == (401, "caller-unverified")


async def test_a_proxy_on_this_machine_is_not_this_machine(scene: Scene) -> None:
    headers = {"x-forwarded-for": "203.0.113.9"}
    assert await refusal(scene.verifier(), headers, peer=LOCAL) == (401, "caller-unverified")


async def test_the_dispatch_secret_is_asked_for_as_well(scene: Scene) -> None:
    verifier = scene.verifier(secret="right")
    for wrong in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic right"}):
        assert await refusal(verifier, scene.headers() | wrong) == (401, "caller-unverified")
    accepted = await verifier.verify(FAR, scene.headers() | {"authorization": "Bearer right"}, b"")
    assert isinstance(accepted, CallerAccepted)
    assert accepted.has_dispatch_secret


async def test_without_a_dispatch_secret_nobody_has_it(scene: Scene) -> None:
    accepted = await scene.verifier().verify(FAR, scene.headers() | {"authorization": "Bearer "}, b"")
    assert isinstance(accepted, CallerAccepted)
    assert not accepted.has_dispatch_secret


async def test_off_refuses_nobody_and_believes_only_what_is_signed(scene: Scene) -> None:
    verifier = scene.verifier("off", "secret")
    good = await verifier.verify(FAR, scene.headers(), b"")
    assert isinstance(good, CallerAccepted)
    assert good.caller is not None
    for headers, body in (
        ({"x-molecule-caller": "rubbish"}, b""),
        (scene.headers(lifetime=-60), b""),
        (scene.headers(message_id="m1"), message("m2")),
    ):
        assert await verifier.verify(FAR, headers, body) == CallerAccepted()


async def test_without_keys_the_sender_comes_again(scene: Scene, manual_time: ManualTime) -> None:
    verifier, headers = scene.verifier(), scene.headers()
    scene.platform.fail_next("GET", "/.well-known/jwks.json", 503)
    result = await verifier.verify(FAR, headers, b"")
    assert result == CallerRefused(
        503,
        "agent-busy",
        f"the caller cannot be verified now: the keys of {scene.client.platform_url} cannot be fetched",
        5,
    )
    manual_time.now += 5
    assert isinstance(await verifier.verify(FAR, headers, b""), CallerAccepted), "it was not used up"


async def test_the_keys_are_fetched_once_for_all_who_wait(scene: Scene) -> None:
    verifier = scene.verifier()
    results = await asyncio.gather(*(verifier.verify(FAR, scene.headers(), b"") for _ in range(5)))
    assert all(isinstance(result, CallerAccepted) for result in results)
    assert scene.fetches() == 1
    keys = next(request for request in scene.platform.requests if request.path.endswith("jwks.json"))
    assert "Authorization" not in keys.headers


async def test_a_caller_that_hangs_up_does_not_end_the_fetch(scene: Scene) -> None:
    verifier, headers = scene.verifier(), scene.headers()
    first = asyncio.create_task(verifier.verify(FAR, scene.headers(), b""))
    await asyncio.sleep(0)
    second = asyncio.create_task(verifier.verify(FAR, headers, b""))
    await asyncio.sleep(0)
    first.cancel()
    assert isinstance(await second, CallerAccepted)
    assert scene.fetches() == 1


async def test_old_keys_are_good_while_the_platform_is_away(scene: Scene, manual_time: ManualTime) -> None:
    verifier = scene.verifier()
    await verifier.verify(FAR, scene.headers(), b"")
    manual_time.now += 400
    scene.platform.drop_next("GET", "/.well-known/jwks.json")
    assert isinstance(await verifier.verify(FAR, scene.headers(), b""), CallerAccepted)
    await until(lambda: scene.fetches() == 2)
    manual_time.now += 3300
    scene.platform.drop_next("GET", "/.well-known/jwks.json")
    assert await refusal(verifier, scene.headers()) == (503, "agent-busy")


def test_the_policy_is_one_of_three_words() -> None:
    assert [callers.read_policy(text) for text in ("", " ALWAYS ", "off")] == ["auto", "always", "off"]
    with pytest.raises(ValueError, match="must be always, auto or off"):
        callers.read_policy("sometimes")
