"""Secrets at rest open only with their key, in their place."""

import base64
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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


def test_a_keyring_shows_ids_and_no_keys() -> None:
    shown = repr(sealing.Keyring(KEY))
    assert shown == f"Keyring({sealing.key_id_of(KEY)})"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (base64.b64encode(KEY).decode(), KEY),
        (base64.b64encode(KEY).decode() + "\n", KEY),
        (base64.b64encode(KEY).decode().rstrip("="), KEY),
        (base64.urlsafe_b64encode(b"\xff" * 32).decode(), b"\xff" * 32),
        ("0123456789abcdef0123456789abcdef", b"0123456789abcdef0123456789abcdef"),
        ("exactly thirty-two characters !!", b"exactly thirty-two characters !!"),
    ],
)
def test_a_key_may_be_base64_or_plain_characters(tmp_path: Path, text: str, key: bytes) -> None:
    assert sealing.load_keyring(tmp_path, text).current_id == sealing.key_id_of(key)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["hush", "hush" * 9, "ä" * 32, base64.b64encode(b"hush" * 6).decode() + "!", " "]
)
def test_a_wrong_key_is_refused_without_being_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(sealing.KeyProblem) as caught:
        sealing.load_keyring(tmp_path, text)
    assert str(caught.value) == (
        "SECRETS_ENCRYPTION_KEY is not an encryption key: give base64 of 32 random bytes "
        "(openssl rand -base64 32) or 32 ASCII characters."
    )


@pytest.mark.parametrize("configured", [None, ""])
def test_without_a_setting_a_key_is_made_once_and_only_the_owner_reads_it(
    tmp_path: Path, configured: str | None
) -> None:
    first = sealing.load_keyring(tmp_path, configured)
    again = sealing.load_keyring(tmp_path, configured)
    assert first.current_id == again.current_id
    assert [path.name for path in tmp_path.iterdir()] == ["secrets.key"]
    assert (tmp_path / "secrets.key").stat().st_mode & 0o777 == 0o600


def test_starters_at_the_same_time_agree_on_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        starts = [pool.submit(sealing.load_keyring, tmp_path, None) for _ in range(64)]
    assert len({start.result().current_id for start in starts}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["secrets.key"]


def test_a_configured_key_still_opens_what_the_key_file_sealed(tmp_path: Path) -> None:
    sealed = sealing.load_keyring(tmp_path, None).seal(b"from before", PLACE)
    ring = sealing.load_keyring(tmp_path, base64.b64encode(KEY).decode())
    assert ring.current_id == sealing.key_id_of(KEY)
    assert ring.open(sealed, PLACE) == b"from before"


@pytest.mark.parametrize("content", [b"", b"garbage", b"\xff\xfe", base64.b64encode(b"x" * 31)])
def test_a_broken_key_file_is_named_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "secrets.key"
    path.write_bytes(content)
    with pytest.raises(sealing.KeyProblem, match="secrets.key is not an encryption key"):
        sealing.load_keyring(tmp_path, None)
    assert path.read_bytes() == content


def test_an_unwritable_place_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(sealing.KeyProblem, match="cannot be created .* make the data directory writable"):
        sealing.load_keyring(tmp_path / "missing", None)
    (tmp_path / "secrets.key").mkdir()
    with pytest.raises(sealing.KeyProblem, match="cannot be read"):
        sealing.load_keyring(tmp_path, None)


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(sealing.KeyProblem, match="32 bytes"):
        sealing.Keyring(os.urandom(16))
