"""Signatures of others: only the key that made one verifies it, by the algorithm it is for."""

import base64
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.keys import signature_verification, signing

SAID = b"header.payload"
HASH = hashes.SHA256()
Sign = Callable[[bytes], bytes]


def text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def whole(number: int) -> str:
    return text(number.to_bytes((number.bit_length() + 7) // 8, "big"))


def shown_rsa(private: rsa.RSAPrivateKey) -> dict[str, Any]:
    numbers = private.public_key().public_numbers()
    return {"kty": "RSA", "n": whole(numbers.n), "e": whole(numbers.e)}


RSA = rsa.generate_private_key(65537, 2048)
WEAK = rsa.generate_private_key(65537, 1024)
SALTED = padding.PSS(padding.MGF1(HASH), HASH.digest_size)
OURS = {alg: signing.new_key(alg) for alg in ("ES256", "EdDSA")}
KEYS: dict[str, tuple[dict[str, Any], Sign]] = {
    **{alg: (key.public, signing.load(key.private)) for alg, key in OURS.items()},
    "RS256": (shown_rsa(RSA), lambda said: RSA.sign(said, padding.PKCS1v15(), HASH)),
    "PS256": (shown_rsa(RSA), lambda said: RSA.sign(said, SALTED, HASH)),
}
ALGORITHMS = sorted(KEYS)


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_a_key_verifies_what_it_signed_and_nothing_else(alg: str) -> None:
    key, sign = KEYS[alg]
    signature = sign(SAID)
    described = {**key, "use": "sig", "alg": alg, "key_ops": ["verify"], "kid": "k"}
    assert signature_verification.verify(key, alg, signature, SAID) is True
    assert signature_verification.verify(described, alg, signature, SAID) is True
    assert signature_verification.verify(key, alg, signature, SAID + b"!") is False
    for wrong in (b"", signature[:-1], signature + b"\0", bytes(len(signature))):
        assert signature_verification.verify(key, alg, wrong, SAID) is False


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_a_key_is_used_for_nothing_that_it_is_not_for(alg: str) -> None:
    key, sign = KEYS[alg]
    signature = sign(SAID)
    for changes in ({"use": "enc"}, {"alg": "other"}, {"key_ops": ["sign"]}, {"key_ops": "verify"}):
        assert signature_verification.verify({**key, **changes}, alg, signature, SAID) is None
    for other in (*ALGORITHMS, "none", "HS256", "ES384", ""):
        if {alg, other} != {"RS256", "PS256"} and other != alg:
            assert signature_verification.verify(key, other, signature, SAID) is None


def test_the_two_algorithms_of_rsa_are_not_mixed_up() -> None:
    for one, other in (("RS256", "PS256"), ("PS256", "RS256")):
        key, sign = KEYS[one]
        assert signature_verification.verify(key, other, sign(SAID), SAID) is False


def test_a_key_too_small_to_trust_or_too_large_to_pay_for_is_none() -> None:
    weak = WEAK.sign(SAID, padding.PKCS1v15(), HASH)
    assert signature_verification.verify(shown_rsa(WEAK), "RS256", weak, SAID) is None
    huge = {"kty": "RSA", "n": whole((1 << 16384) + 1), "e": "AQAB"}
    assert signature_verification.verify(huge, "RS256", weak, SAID) is None
    steep = {**shown_rsa(RSA), "e": whole((1 << 64) + 1)}
    assert signature_verification.verify(steep, "RS256", weak, SAID) is None


def test_a_point_beside_the_curve_and_another_curve_are_no_keys() -> None:
    key, sign = KEYS["ES256"]
    beside = {**key, "y": key["x"]}
    assert signature_verification.verify(beside, "ES256", sign(SAID), SAID) is None
    assert signature_verification.verify({**key, "crv": "P-384"}, "ES256", sign(SAID), SAID) is None


def test_a_signature_of_ecdsa_is_two_numbers_and_not_der() -> None:
    private = serialization.load_pem_private_key(OURS["ES256"].private.encode(), None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    der = private.sign(SAID, ec.ECDSA(HASH))
    assert signature_verification.verify(KEYS["ES256"][0], "ES256", der, SAID) is False
    r, s = utils.decode_dss_signature(der)
    plain = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    assert signature_verification.verify(KEYS["ES256"][0], "ES256", plain, SAID) is True


_VALUES = st.none() | st.integers() | st.text(max_size=50) | st.lists(st.text(max_size=3), max_size=2)
_KEYS = st.dictionaries(
    st.sampled_from(["kty", "crv", "x", "y", "n", "e", "use", "alg", "key_ops"]),
    st.sampled_from(["EC", "P-256", "RSA", "OKP", "Ed25519", "AQAB", "sig", whole(1 << 255)]) | _VALUES,
)


@given(_KEYS, st.sampled_from(ALGORITHMS), st.binary(max_size=80))
def test_a_key_made_of_anything_is_never_believed(key: dict[str, Any], alg: str, signature: bytes) -> None:
    assert not signature_verification.verify(key, alg, signature, SAID)


def test_an_ed25519_key_of_another_length_is_none() -> None:
    raw = ed25519.Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    assert (
        signature_verification.verify(
            {"kty": "OKP", "crv": "Ed25519", "x": text(raw[:-1])}, "EdDSA", b"", SAID
        )
        is None
    )
