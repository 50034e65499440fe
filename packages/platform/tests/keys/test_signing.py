"""Key pairs: what is shown of them checks what the hidden half signs."""

import base64
import hashlib

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from molecule_platform.keys import signing


def raw(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_an_ed25519_key_is_shown_as_a_jwk_that_checks_its_signatures() -> None:
    key = signing.new_key("EdDSA")
    private = serialization.load_pem_private_key(key.private.encode(), None)
    assert isinstance(private, ed25519.Ed25519PrivateKey)
    assert (key.public["kty"], key.public["crv"]) == ("OKP", "Ed25519")
    public = ed25519.Ed25519PublicKey.from_public_bytes(raw(key.public["x"]))
    public.verify(private.sign(b"said"), b"said")
    assert key.kid == hashlib.sha256(raw(key.public["x"])).hexdigest()[:16]


def test_a_p256_key_is_shown_as_a_jwk_that_checks_its_signatures() -> None:
    key = signing.new_key("ES256")
    private = serialization.load_pem_private_key(key.private.encode(), None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    x, y = (int.from_bytes(raw(key.public[name]), "big") for name in ("x", "y"))
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    public.verify(private.sign(b"said", ec.ECDSA(hashes.SHA256())), b"said", ec.ECDSA(hashes.SHA256()))
    assert {len(raw(key.public[name])) for name in ("x", "y")} == {32}


def test_no_two_keys_are_the_same_and_none_shows_its_private_half() -> None:
    keys = [signing.new_key("EdDSA") for _ in range(3)]
    assert len({key.kid for key in keys}) == 3
    assert all("PRIVATE" not in repr(key) for key in keys)


def test_there_is_no_other_kind() -> None:
    with pytest.raises(KeyError):
        signing.new_key("HS256")
