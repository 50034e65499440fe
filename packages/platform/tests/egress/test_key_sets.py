"""Key sets of others: fetched once for all, kept for a while, bounded, and not waited for long."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.card_signatures import Origin
from molecule_platform.egress import guard, key_sets
from molecule_platform.egress.connector import Outbound
from molecule_platform.egress.key_sets import HttpKeySets
from molecule_platform.ports.key_sets import NoKeys

if TYPE_CHECKING:
    from packages.platform.tests.egress.conftest import RawServer

KEY = {"kid": "k1", "kty": "OKP"}


class Time:
    """Seconds that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Sets:
    """Key sets over the server of a test."""

    def __init__(self, server: RawServer) -> None:
        self.server, self.time = server, Time()
        self.outbound = Outbound(guard.agent_policy(("loopback",)))
        self.sets = HttpKeySets(self.outbound, self.time, seconds=2.0)
        server.always = document({"keys": [KEY]})

    async def keys(self, **how: Any) -> Any:
        return (await self.sets.keys(self.server.url, **how)).keys

    @property
    def asked(self) -> int:
        return len(self.server.heads)


def document(body: Any, status: str = "200 OK") -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(raw)}\r\n\r\n".encode() + raw


@pytest.fixture
async def sets(server: RawServer) -> AsyncIterator[Sets]:
    made = Sets(server)
    yield made
    await made.outbound.close()


async def test_keys_are_fetched_once_and_kept_for_some_minutes(sets: Sets) -> None:
    assert await sets.keys() == (KEY,)
    sets.time.now += key_sets.KEPT_SECONDS
    assert await sets.keys() == (KEY,)
    assert sets.asked == 1
    assert sets.server.heads[0].startswith("GET /a2a ")
    sets.time.now += 1
    await sets.keys()
    assert sets.asked == 2


async def test_all_who_ask_at_once_share_one_fetch(sets: Sets) -> None:
    assert await asyncio.gather(*(sets.keys() for _ in range(20))) == [(KEY,)] * 20
    assert sets.asked == 1


async def test_whoever_stops_waiting_takes_the_answer_from_nobody(sets: Sets) -> None:
    impatient = asyncio.ensure_future(sets.keys())
    patient = asyncio.ensure_future(sets.keys())
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient == (KEY,)


async def test_keys_are_fetched_anew_for_whoever_needs_them_as_they_are(sets: Sets) -> None:
    await sets.keys()
    sets.server.always = document({"keys": []})
    assert await sets.keys() == (KEY,)
    assert await asyncio.gather(*(sets.keys(anew=True) for _ in range(5))) == [()] * 5
    assert await sets.keys() == ()
    assert sets.asked == 2


async def test_it_is_told_whether_keys_were_kept(sets: Sets) -> None:
    told = [await sets.sets.keys(sets.server.url, anew=anew) for anew in (False, False, True)]
    assert [each.is_kept for each in told] == [False, True, False]


async def test_a_place_that_does_not_answer_is_asked_again_soon(sets: Sets) -> None:
    sets.server.answers = [document({}, "503 Service Unavailable")]
    for _ in range(3):
        with pytest.raises(NoKeys, match="HTTP 503"):
            await sets.keys()
    assert sets.asked == 1
    sets.time.now += key_sets.AWAY_SECONDS + 0.1
    assert await sets.keys() == (KEY,)


async def test_keys_that_are_kept_outlive_a_server_that_is_away(sets: Sets) -> None:
    await sets.keys()
    sets.server.answers = [document({}, "503 Service Unavailable")]
    with pytest.raises(NoKeys, match="HTTP 503"):
        await sets.keys(anew=True)
    assert await sets.keys() == (KEY,)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (document(b"<html>"), "no JSON"),
        (document([]), "no JWKS"),
        (document({"keys": {}}), "no JWKS"),
        (document({"keys": ["x" * key_sets.MOST_BYTES]}), "larger than"),
        (document(b"", "302 Found"), "HTTP 302"),
    ],
)
async def test_what_is_no_key_set_gives_no_keys(sets: Sets, answer: bytes, why: str) -> None:
    sets.server.always = answer
    with pytest.raises(NoKeys, match=why):
        await sets.keys()


async def test_entries_that_are_no_keys_are_passed_over_and_the_rest_is_bounded(sets: Sets) -> None:
    sets.server.always = document({"keys": ["x", None, *[KEY] * 100]})
    assert await sets.keys() == (KEY,) * (key_sets.MAX_KEYS - 2)


async def test_a_server_that_says_nothing_is_left_in_time(sets: Sets) -> None:
    async def silent(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    sets.sets = HttpKeySets(sets.outbound, sets.time, seconds=0.05)
    sets.server.always = silent
    with pytest.raises(NoKeys, match="the key server"):
        await sets.keys()


async def test_no_more_than_so_many_sets_are_kept(sets: Sets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_sets, "MAX_SETS", 2)
    for number in (1, 2, 3, 1):
        await sets.sets.keys(f"{sets.server.url}/{number}")
    assert sets.asked == 4
    assert len(sets.sets._seen) == 2


async def test_an_address_that_may_not_be_called_has_no_place_and_no_keys(sets: Sets) -> None:
    assert sets.sets.origin("https://A.Example:8443/x?y") == Origin("https", "a.example", 8443)
    for url in (
        "https://10.0.0.1/jwks",
        "https://me@a.example/",
        "ftp://a.example/",
        "jwks",
        "https://169.254.169.254",
    ):
        assert sets.sets.origin(url) is None
    with pytest.raises(NoKeys, match="MOLECULE_ALLOW_PRIVATE_URLS"):
        await sets.sets.keys("https://10.0.0.1/jwks")
