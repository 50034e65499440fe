"""Who calls, by an assertion: the order of the checks, and that each is used once; signatures are stubbed."""

import base64
import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire import assertions
from molecule_wire.assertions import AssertionRefused
from molecule_wire.caller_keys import VerificationKeys
from molecule_wire.callers import CallerCheck, ReplayCache

AGENT = "3F1C2D4E-5a6b-4c7d-8e9f-0a1b2c3d4e5f"
NOW = 1_800_000_000
KEYS = VerificationKeys("https://platform.example", {"k1": b"public key one"})
CONTEXT = {"id": "d2", "root": "d1", "depth": 2, "calls_left": 62, "chain": ["a", "b"]}


def token(jti: str = "j1", kid: str = "k1", **changes: Any) -> str:
    claims = {
        "iss": "https://platform.example",
        "sub": "workspace:peer-1",
        "aud": f"workspace:{AGENT.lower()}",
        "iat": NOW,
        "nbf": NOW,
        "exp": NOW + 300,
        "jti": jti,
        "org": "org-1",
        "mid": "m1",
        "row": "row-1",
        "ctx": "c1",
        "delegation": CONTEXT,
        "name": "Peer",
    } | changes
    parts = (json.dumps({"alg": "EdDSA", "kid": kid}).encode(), json.dumps(claims).encode(), b"signed")
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def is_signed(public: bytes, signature: bytes, said: bytes) -> bool:
    return public == b"public key one" and signature == b"signed" and said.count(b".") == 1


def caller(check: CallerCheck, shown: str, **more: Any) -> Any:
    return check.caller(assertions.parse(shown), KEYS, NOW, **more)


def test_every_claim_about_the_message_is_handed_on() -> None:
    assert caller(CallerCheck(AGENT, is_signed), token(), message_id="m1", row="row-1") == {
        "principal": "workspace:peer-1",
        "name": "Peer",
        "org": "org-1",
        "message_id": "m1",
        "row": "row-1",
        "context_id": "c1",
        "delegation": CONTEXT,
    }


@pytest.mark.parametrize(
    ("shown", "more", "why"),
    [
        (token(kid="k2"), {}, "no such key"),
        (token(), {"row": "row-2"}, "another message"),
        (token(), {"message_id": "m2"}, "another message"),
        (token(aud="workspace:other"), {}, "another workspace"),
        (token(exp=NOW - 100), {}, "longer than"),
    ],
)
def test_an_assertion_that_is_refused_is_not_used_up(shown: str, more: Any, why: str) -> None:
    check = CallerCheck(AGENT, is_signed)
    with pytest.raises(AssertionRefused, match=why):
        caller(check, shown, **more)
    assert caller(check, token())


def test_the_signature_decides_before_anything_that_is_said() -> None:
    check = CallerCheck(AGENT, lambda _public, _signature, _said: False)
    with pytest.raises(AssertionRefused, match="signature"):
        caller(check, token(aud="workspace:other"))


def test_an_assertion_is_used_once() -> None:
    check = CallerCheck(AGENT, is_signed)
    assert caller(check, token())
    with pytest.raises(AssertionRefused, match="used before"):
        caller(check, token())
    assert caller(check, token("j2"))


def test_a_guard_is_held_while_an_id_is_looked_up_and_not_while_a_signature_is_checked() -> None:
    guard, held = threading.Lock(), list[bool]()

    def verify(*_args: bytes) -> bool:
        held.append(guard.locked())
        return True

    check = CallerCheck(AGENT, verify, guard)
    assert caller(check, token())
    assert held == [False]
    assert not guard.locked()


def test_used_ids_are_forgotten_when_they_expire_and_never_grow_without_bound() -> None:
    used = ReplayCache(most=3)
    assert [used.use(name, 10, 0) for name in "aab"] == [True, False, True]
    assert used.use("a", 30, 10)
    assert [used.use(name, 30, 10) for name in "cdef"] == [True] * 4
    assert len(used) == 3


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0, 100)), max_size=50))
def test_within_its_life_an_id_is_used_once(uses: list[tuple[str, float]]) -> None:
    cache, now, expires = ReplayCache(), 0.0, dict[str, float]()
    for jti, seconds in uses:
        now += seconds
        assert cache.use(jti, now + 330, now) == (expires.get(jti, 0.0) <= now)
        if expires.get(jti, 0.0) <= now:
            expires[jti] = now + 330


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", ""),
        (b"[1]", ""),
        (b'{"params":{"message":{"messageId":"m1"}}}', "m1"),
        (b'{"message":{"messageId":"m1"}}', "m1"),
        (b'{"message":"text","task_id":"t"}', ""),
        (b'{"params":{"message":{"messageId":7}}}', ""),
    ],
)
def test_where_the_id_of_the_message_is_read(body: bytes, named: str) -> None:
    assert assertions.message_id_in(body) == named
