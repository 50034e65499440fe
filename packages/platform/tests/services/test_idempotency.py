"""A keyed request happens once; of one that was cut short a repeat is told at once."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain.errors import ApiError
from molecule_platform.services.support import idempotency
from molecule_platform.services.support.idempotency import IdempotencyService, ResponseSealer, StoredResponse

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

AT_ONCE_SECONDS = 30.0
NAMED = ("scope", "key")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "WAIT_SECONDS", 60.0)


def replica(rig: Rig, name: str = "this") -> IdempotencyService:
    backwards = ResponseSealer(lambda text, _place: text[::-1], lambda line, _place: line[::-1])
    return IdempotencyService(rig.storage, rig.signals, rig.clock, backwards, name)


async def asked_again(rig: Rig, name: str = "this") -> StoredResponse | None:
    """What a repeat gets, long before it would be tired of waiting."""
    async with asyncio.timeout(AT_ONCE_SECONDS):
        return await replica(rig, name).begin(*NAMED, "hash")


async def test_the_repeat_gets_the_outcome_of_the_first_for_a_week(rig: Rig) -> None:
    first = replica(rig)
    assert await first.begin(*NAMED, "hash") is None
    await first.finish(*NAMED, 201, "made")
    rig.clock.advance(timedelta(days=7).total_seconds() - 1)
    assert await asked_again(rig) == StoredResponse(201, "made")
    rig.clock.advance(1)
    assert await asked_again(rig) is None


async def test_a_request_that_its_dead_replica_never_finished_is_told_of_at_once(
    rig: Rig, refuses: Refuses
) -> None:
    await replica(rig, "dead").begin(*NAMED, "hash")
    refusal = await refuses(asked_again(rig), "conflict")
    assert "use a new key" in refusal.sentence


async def test_a_request_that_broke_is_told_of_at_once(rig: Rig, refuses: Refuses) -> None:
    first = replica(rig)
    await first.begin(*NAMED, "hash")
    await first.abandon(*NAMED)
    await refuses(asked_again(rig), "conflict")


@pytest.mark.parametrize("name", ["this", "other"])
async def test_a_request_that_still_runs_is_waited_for(rig: Rig, name: str) -> None:
    first = replica(rig, name)
    await rig.storage.write(lambda tx: tx.presence.seen("other"))
    await first.begin(*NAMED, "hash")
    waiting = asyncio.ensure_future(asked_again(rig))
    await asyncio.wait([waiting], timeout=0.1)
    assert not waiting.done()
    await first.finish(*NAMED, 201, "made")
    assert await waiting == StoredResponse(201, "made")


async def test_whoever_waits_for_a_request_that_is_refused_takes_its_place(rig: Rig) -> None:
    first = replica(rig)
    await first.begin(*NAMED, "hash")
    waiting = asyncio.ensure_future(asked_again(rig))
    await asyncio.wait([waiting], timeout=0.1)
    await first.forget(*NAMED)
    assert await waiting is None


async def test_the_key_of_a_request_that_never_ended_is_free_after_an_hour(rig: Rig) -> None:
    await replica(rig, "dead").begin(*NAMED, "hash")
    rig.clock.advance(3600)
    assert await asked_again(rig) is None


@pytest.mark.parametrize(
    "raw",
    [b'{"x":' + b"1" * 5000 + b"}", b'{"x":"\xff"}', b'{"x":' + b"[" * 9999 + b"]" * 9999 + b"}"],
    ids=["long number", "no UTF-8", "deep"],
)
def test_a_body_that_cannot_be_read_is_refused(raw: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        idempotency.body_hash(raw)
    assert refused.value.code == "invalid-json"


@given(st.dictionaries(st.text(), st.none() | st.integers() | st.text()), st.integers(0, 4))
def test_the_same_json_has_one_hash_however_it_is_written(value: dict[str, object], indent: int) -> None:
    turned = json.dumps(dict(reversed(value.items())), indent=indent, ensure_ascii=False)
    written = turned.encode(errors="surrogatepass")
    try:
        json.loads(written)
    except UnicodeDecodeError:
        return
    assert idempotency.body_hash(written) == idempotency.body_hash(json.dumps(value).encode())
