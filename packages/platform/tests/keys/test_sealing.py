"""Secrets at rest open only with their key, in their place."""

import hashlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.keys import sealing

KEY = bytes(range(32))
OTHER_KEY = bytes(reversed(range(32)))
PLACE = "default|018f|OPENAI_API_KEY"


@given(st.binary(max_size=2000), st.text(max_size=100))
def test_what_was_sealed_opens_in_its_place(plaintext: bytes, place: str) -> None:
    ring = sealing.Keyring(KEY)
    assert ring.open(ring.seal(plaintext, place), place) == plaintext


def test_each_sealing_takes_a_fresh_nonce_and_hides_the_plaintext() -> None:
    ring = sealing.Keyring(KEY)
    sealed = [ring.seal(b"the same secret", PLACE) for _ in range(100)]
    assert len({one.nonce for one in sealed}) == 100
    assert {len(one.nonce) for one in sealed} == {12}
    assert not any(b"secret" in one.ciphertext for one in sealed)


def test_a_key_is_named_by_the_start_of_its_hash() -> None:
    assert sealing.Keyring(KEY).current_id == hashlib.sha256(KEY).hexdigest()[:16]
    assert sealing.Keyring(KEY).seal(b"x", PLACE).key_id == sealing.key_id_of(KEY)


@pytest.mark.parametrize("place", ["", "default|018f|OTHER", "other|018f|OPENAI_API_KEY"])
def test_a_secret_moved_to_another_place_does_not_open(place: str) -> None:
    ring = sealing.Keyring(KEY)
    with pytest.raises(sealing.KeyProblem, match="altered or moved"):
        ring.open(ring.seal(b"x", PLACE), place)


@given(st.integers(0, 17), st.integers(1, 255))
def test_an_altered_secret_does_not_open(position: int, change: int) -> None:
    ring = sealing.Keyring(KEY)
    sealed = ring.seal(b"xy", PLACE)
    altered = bytearray(sealed.ciphertext)
    altered[position] ^= change
    with pytest.raises(sealing.KeyProblem, match="altered or moved"):
        ring.open(sealing.Sealed(sealed.key_id, sealed.nonce, bytes(altered)), PLACE)


@pytest.mark.parametrize(
    ("nonce", "ciphertext"), [(b"", b""), (b"x" * 12, b""), (b"x" * 12, b"short"), (b"x", b"y" * 20)]
)
def test_a_truncated_row_does_not_open(nonce: bytes, ciphertext: bytes) -> None:
    ring = sealing.Keyring(KEY)
    with pytest.raises(sealing.KeyProblem, match="altered or moved"):
        ring.open(sealing.Sealed(ring.current_id, nonce, ciphertext), PLACE)


def test_without_its_key_a_secret_names_the_key_to_bring_back() -> None:
    sealed = sealing.Keyring(KEY).seal(b"x", PLACE)
    with pytest.raises(sealing.KeyProblem) as caught:
        sealing.Keyring(OTHER_KEY).open(sealed, PLACE)
    assert str(caught.value) == (
        f"A secret was sealed with key {sealing.key_id_of(KEY)}, which is not loaded: "
        "set SECRETS_ENCRYPTION_KEY to that key or put its secrets.key back into the data directory."
    )


def test_an_older_key_still_opens_and_the_current_one_seals() -> None:
    sealed = sealing.Keyring(KEY).seal(b"old", PLACE)
    ring = sealing.Keyring(OTHER_KEY, older=[KEY])
    assert ring.open(sealed, PLACE) == b"old"
    assert ring.seal(b"new", PLACE).key_id == sealing.key_id_of(OTHER_KEY)
    assert ring.key_ids == {sealing.key_id_of(KEY), sealing.key_id_of(OTHER_KEY)}


def test_a_keyring_learns_what_became_of_its_keys() -> None:
    news: list[list[bytes]] = []
    ring = sealing.Keyring(KEY, changed=lambda: news.pop() if news else None)
    old = ring.seal(b"x", PLACE)
    news.append([OTHER_KEY, KEY])
    new = ring.seal(b"x", PLACE)
    assert (old.key_id, new.key_id) == (sealing.key_id_of(KEY), sealing.key_id_of(OTHER_KEY))
    assert ring.open(old, PLACE) == ring.open(new, PLACE) == b"x"


def test_a_keyring_that_meets_an_unknown_key_looks_whether_there_is_a_new_one() -> None:
    sealed = sealing.Keyring(OTHER_KEY).seal(b"x", PLACE)
    ring = sealing.Keyring(KEY, changed=lambda: [OTHER_KEY, KEY])
    assert ring.open(sealed, PLACE) == b"x"


def test_a_keyring_shows_ids_and_no_keys() -> None:
    shown = repr(sealing.Keyring(KEY))
    assert shown == f"Keyring({sealing.key_id_of(KEY)})"


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(sealing.KeyProblem, match="32 bytes"):
        sealing.Keyring(os.urandom(16))
