"""The file of keys: made once, replaced as a whole, and never without a key that something needs."""

import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from molecule_platform.keys import keyfile, sealing

KEY = bytes(range(32))
PLACE = "default|018f|OPENAI_API_KEY"


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
    assert keyfile.load_keychain(tmp_path, text).current_id == sealing.key_id_of(key)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["hush", "hush" * 9, "ä" * 32, base64.b64encode(b"hush" * 6).decode() + "!", " "]
)
def test_a_wrong_key_is_refused_without_being_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(sealing.KeyProblem) as caught:
        keyfile.load_keychain(tmp_path, text)
    assert str(caught.value) == (
        "SECRETS_ENCRYPTION_KEY is not an encryption key: give base64 of 32 random bytes "
        "(openssl rand -base64 32) or 32 ASCII characters."
    )


@pytest.mark.parametrize("configured", [None, ""])
def test_without_a_setting_a_key_is_made_once_and_only_the_owner_reads_it(
    tmp_path: Path, configured: str | None
) -> None:
    first = keyfile.load_keychain(tmp_path, configured)
    again = keyfile.load_keychain(tmp_path, configured)
    assert first.current_id == again.current_id
    assert [path.name for path in tmp_path.iterdir()] == ["secrets.key"]
    assert (tmp_path / "secrets.key").stat().st_mode & 0o777 == 0o600


def test_starters_at_the_same_time_agree_on_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        starts = [pool.submit(keyfile.load_keychain, tmp_path, None) for _ in range(64)]
    assert len({start.result().current_id for start in starts}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["secrets.key"]


def test_a_configured_key_still_opens_what_the_key_file_sealed(tmp_path: Path) -> None:
    sealed = keyfile.load_keychain(tmp_path, None).ring.seal(b"from before", PLACE)
    ring = keyfile.load_keychain(tmp_path, base64.b64encode(KEY).decode()).ring
    assert ring.current_id == sealing.key_id_of(KEY)
    assert ring.open(sealed, PLACE) == b"from before"


@pytest.mark.parametrize("content", [b"", b"garbage", b"\xff\xfe", base64.b64encode(b"x" * 31)])
def test_a_broken_key_file_is_named_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "secrets.key"
    path.write_bytes(content)
    with pytest.raises(sealing.KeyProblem, match="secrets.key is not an encryption key"):
        keyfile.load_keychain(tmp_path, None)
    assert path.read_bytes() == content


def test_an_unwritable_place_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(sealing.KeyProblem, match="cannot be created .* make the data directory writable"):
        keyfile.load_keychain(tmp_path / "missing", None)
    (tmp_path / "secrets.key").mkdir()
    with pytest.raises(sealing.KeyProblem, match="cannot be read"):
        keyfile.load_keychain(tmp_path, None)


def in_file(folder: Path) -> list[str]:
    return [sealing.key_id_of(key) for key in keyfile.KeyFile(folder / "secrets.key").read()]


def test_a_new_key_stands_before_the_old_one_which_still_opens(tmp_path: Path) -> None:
    chain = keyfile.load_keychain(tmp_path, None)
    old, sealed = chain.current_id, chain.ring.seal(b"x", PLACE)
    assert chain.renew()
    assert chain.current_id != old
    assert in_file(tmp_path) == [chain.current_id, old]
    assert chain.ring.open(sealed, PLACE) == b"x"
    assert (tmp_path / "secrets.key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secrets.key"]


def test_another_process_on_the_same_file_seals_with_the_new_key_at_once(tmp_path: Path) -> None:
    one, other = keyfile.load_keychain(tmp_path, None), keyfile.load_keychain(tmp_path, None)
    assert one.renew()
    assert other.ring.seal(b"x", PLACE).key_id == one.current_id
    assert other.key_ids == one.key_ids


def test_keys_that_are_no_longer_needed_go_but_never_the_one_that_seals(tmp_path: Path) -> None:
    chain = keyfile.load_keychain(tmp_path, None)
    first = chain.current_id
    assert chain.renew()
    chain.forget({first, chain.current_id})
    assert in_file(tmp_path) == [chain.current_id]
    assert chain.key_ids == {chain.current_id}
    chain.forget(frozenset())
    assert in_file(tmp_path) == [chain.current_id]


def test_no_key_is_lost_when_many_renew_at_once(tmp_path: Path) -> None:
    chains = [keyfile.load_keychain(tmp_path, None) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(keyfile.Keychain.renew, chains))
    assert len(set(in_file(tmp_path))) == 9


def test_a_key_that_was_given_is_not_replaced_here(tmp_path: Path) -> None:
    chain = keyfile.load_keychain(tmp_path, base64.b64encode(KEY).decode())
    assert not chain.renew()
    chain.forget({chain.current_id})
    assert chain.current_id == sealing.key_id_of(KEY)
    assert list(tmp_path.iterdir()) == []


def test_beside_a_key_that_was_given_the_file_brings_others_while_it_runs(tmp_path: Path) -> None:
    chain = keyfile.load_keychain(tmp_path, base64.b64encode(KEY).decode())
    other = keyfile.load_keychain(tmp_path, None)
    sealed = other.ring.seal(b"x", PLACE)
    assert chain.ring.open(sealed, PLACE) == b"x"
    assert chain.ring.seal(b"x", PLACE).key_id == sealing.key_id_of(KEY)


def test_nothing_is_sealed_once_the_file_is_gone(tmp_path: Path) -> None:
    chain = keyfile.load_keychain(tmp_path, None)
    (tmp_path / "secrets.key").unlink()
    with pytest.raises(sealing.KeyProblem, match="put it back"):
        chain.ring.seal(b"x", PLACE)
