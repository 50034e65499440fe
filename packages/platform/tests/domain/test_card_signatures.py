"""Signatures of cards: what is malformed is refused, and only the card's own place may vouch for it."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain import card_signatures as rules
from molecule_platform.domain.card_signatures import Origin
from molecule_platform.domain.errors import ApiError
from tests.rows import each_row

HEADER: dict[str, Any] = {"alg": "ES256", "kid": "k1", "jku": "https://a.example/jwks", "typ": "JOSE"}


def text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signature(**changes: Any) -> dict[str, Any]:
    header = {name: value for name, value in {**HEADER, **changes}.items() if value is not None}
    return {"protected": text(json.dumps(header).encode()), "signature": text(b"signed")}


@pytest.mark.parametrize("card", [{}, {"signatures": None}, {"signatures": []}])
def test_a_card_without_signatures_is_unsigned(card: dict[str, Any]) -> None:
    assert rules.claims_of({"name": "Ada", **card}) == []


def test_a_signature_says_which_key_made_it_and_where_that_is_shown() -> None:
    (claim,) = rules.claims_of({"signatures": [{**signature(), "header": {"alg": "none", "kid": "x"}}]})
    assert (claim.alg, claim.kid, claim.jku) == ("ES256", "k1", "https://a.example/jwks")
    assert claim.signature == b"signed"
    (bare,) = rules.claims_of({"signatures": [signature(kid=None, jku="")]})
    assert (bare.kid, bare.jku) == (None, None)


@each_row(
    ("given_", "why"),
    [
        ("signed", "signatures is a list"),
        ([signature()] * 9, "at most 8 signatures"),
        (["signed"], "a signature is an object"),
        ([{**signature(), "header": "x"}], "a signature is an object"),
        ([{"signature": "c2ln"}], "the texts protected and signature"),
        ([{"protected": "e30", "signature": 7}], "the texts protected and signature"),
        ([{**signature(), "signature": "no base64!"}], "not base64url"),
        ([{"protected": "%%%", "signature": "c2ln"}], "not base64url"),
        ([{"protected": text(b"[]"), "signature": "c2ln"}], "not base64url of a JSON object"),
        ([{"protected": text(b"{"), "signature": "c2ln"}], "not base64url of a JSON object"),
        ([signature(alg="none")], "sign with one of ES256, RS256, PS256, EdDSA"),
        ([signature(alg="HS256")], "alg is not allowed"),
        ([signature(alg=None)], "alg is not allowed"),
        ([signature(alg=["ES256"])], "alg is not allowed"),
        ([signature(crit=["b64"], b64=False)], "crit"),
        ([signature(kid=7)], "kid of its signature is not a text"),
        ([signature(jku={})], "jku of its signature is not a text"),
    ],
)
def test_what_is_malformed_or_not_allowed_is_refused(given_: Any, why: str) -> None:
    with pytest.raises(ApiError, match=why) as refused:
        rules.claims_of({"signatures": given_})
    assert (refused.value.code, refused.value.extras["field"]) == ("invalid-request", "agent_card")


_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from([text(b"{}"), "e30"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["protected", "signature", "header", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(_anything)
def test_whatever_signatures_hold_they_are_read_or_refused(anything: Any) -> None:
    refused = None
    try:
        claims = rules.claims_of({"signatures": anything})
    except ApiError as problem:
        claims, refused = [], problem.code
    assert refused in (None, "invalid-request")
    assert all(claim.alg in rules.ALGORITHMS for claim in claims)


def test_a_signature_covers_all_members_or_those_of_1_0_alone() -> None:
    card: dict[str, Any] = {"name": "Ada", "skills": [], "own": 1, "signatures": [signature()]}
    assert rules.covered(card) == [b'{"name":"Ada","own":1,"skills":[]}', b'{"name":"Ada"}']
    assert rules.covered({"name": "Ada"}) == [b'{"name":"Ada"}']


def test_a_card_that_has_no_canonical_form_is_refused() -> None:
    with pytest.raises(ApiError, match="no canonical form"):
        rules.covered({"name": "Ada", "own": 2**70 + 1})


def test_every_address_of_a_card_counts_but_that_of_grpc() -> None:
    card: dict[str, Any] = {
        "url": "https://a.example/",
        "supportedInterfaces": [
            {"url": "https://b.example/", "protocolBinding": "JSONRPC"},
            {"url": "c.example:50051", "protocolBinding": "GRPC"},
            {"url": 7},
            "https://no.example/",
        ],
        "additionalInterfaces": [
            {"url": "https://d.example/", "transport": "HTTP+JSON"},
            {"url": "e.example:1", "transport": "GRPC"},
        ],
    }
    assert rules.addresses_of(card) == ["https://a.example/", "https://b.example/", "https://d.example/"]
    assert rules.addresses_of({"url": None, "supportedInterfaces": {}}) == []


A = Origin("https", "a.example", 443)


@pytest.mark.parametrize(
    ("keys_at", "card_at", "hosts", "vouches"),
    [
        (A, [A, A], (), True),
        (A, [A], ("b.example:443",), True),
        (A, [], (), False),
        (A, [A, Origin("https", "b.example", 443)], (), False),
        (A, [A, None], (), False),
        (A, [Origin("https", "a.example", 8443)], (), False),
        (A, [Origin("http", "a.example", 443)], (), False),
        (Origin("http", "a.example", 80), [Origin("http", "a.example", 80)], (), False),
        (A, [], ("a.example:443",), True),
        (A, [Origin("https", "b.example", 443)], ("a.example:443",), True),
        (Origin("https", "a.example", 8443), [], ("a.example:443",), False),
        (Origin("http", "a.example", 443), [], ("a.example:443",), False),
    ],
)
def test_only_the_card_s_one_place_or_a_trusted_host_vouches_for_it_and_over_https(
    keys_at: Origin, card_at: list[Origin | None], hosts: tuple[str, ...], vouches: bool
) -> None:
    assert rules.may_vouch(keys_at, card_at, hosts) is vouches
