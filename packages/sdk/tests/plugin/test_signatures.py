"""Signing plugins and holding them to their signatures."""

import dataclasses
import hashlib
import json
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_plugin import keys, signatures
from molecule_plugin.errors import PluginManifestError, PluginSignatureError
from molecule_plugin.trust import SignatureCheck, TrustedKey

SEED = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
PUBLIC = "ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
KEY_ID = "21fe31dfa154a261"
SIGNATURE = "UCYBU35vPvARqynMA3VuMd3Mj7f7b6mFVVi9xOfOuYT3oOB18TAUzJ3_EQCQsfBQ0RjvDLPHL54WLGnhsignDQ"
PAYLOAD_SHA256 = "baade2986f5f5023654cc3e0d8e8b341240311b01ec0f020ed5ec4f33dc7de6a"
CREATED = datetime(2026, 1, 1, tzinfo=UTC)
KEY = keys.SigningKey(SEED)
OTHER = keys.SigningKey(bytes(32))
TRUSTED = TrustedKey(KEY.public)


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_bytes(b"hello\n")
    (tmp_path / "plugin.yaml").write_bytes(b"name: demo\nversion: 1.0.0\n")
    return tmp_path


def verified(plugin: Path, *trusted: TrustedKey, content: bytes | None = None) -> SignatureCheck:
    return signatures.verify_signature(plugin, content, trusted=trusted, name="demo", version="1.0.0")


def test_the_vector_of_the_contract_matches(plugin: Path) -> None:
    assert (KEY.public.text, KEY.public.key_id) == (PUBLIC, KEY_ID)
    made = signatures.sign_plugin(plugin, [KEY], CREATED)
    assert hashlib.sha256(made.payload).hexdigest() == PAYLOAD_SHA256
    shape = json.loads((plugin / "plugin.sig").read_bytes())
    assert shape["format"] == "molecule-plugin-sig/1"
    assert shape["signatures"] == [{"key_id": KEY_ID, "alg": "Ed25519", "sig": SIGNATURE}]
    assert keys.from_base64url(shape["payload"]) == made.payload
    assert verified(plugin, TRUSTED) == SignatureCheck((KEY_ID,), (KEY_ID,))


def test_a_signature_written_is_the_signature_read(plugin: Path) -> None:
    made = signatures.sign_plugin(plugin, [KEY, OTHER], CREATED)
    content = signatures.read_signature(plugin)
    assert content == made.content()
    assert signatures.parse_signature(made.content()) == made


def test_an_unsigned_plugin_has_no_signers(plugin: Path) -> None:
    check = verified(plugin, TRUSTED)
    assert not check.signed
    assert check == SignatureCheck()


def test_signers_that_are_not_trusted_for_the_plugin_are_unknown(plugin: Path) -> None:
    signatures.sign_plugin(plugin, [KEY, OTHER], CREATED)
    elsewhere = TrustedKey(OTHER.public, ("other-*",))
    check = verified(plugin, TRUSTED, elsewhere)
    assert (check.trusted, check.unknown) == ((KEY_ID,), (OTHER.public.key_id,))
    assert verified(plugin).trusted == ()
    assert verified(plugin, TrustedKey(KEY.public, ("demo",))).trusted == (KEY_ID,)


def test_a_signature_that_travelled_beside_the_plugin_counts_like_its_own(plugin: Path) -> None:
    content = signatures.sign_plugin(plugin, [KEY], CREATED).content()
    (plugin / "plugin.sig").unlink()
    assert verified(plugin, TRUSTED, content=content).trusted == (KEY_ID,)


@pytest.mark.parametrize(
    ("path", "content", "says"),
    [
        ("a.txt", "bye\n", "content digest"),
        ("new.txt", "", "content digest"),
        ("plugin.yaml", "name: demo\nversion: 1.0.0\nhooks: [evil.sh]\n", "digest of plugin.yaml"),
    ],
)
def test_a_file_changed_after_signing_is_refused(plugin: Path, path: str, content: str, says: str) -> None:
    signatures.sign_plugin(plugin, [KEY], CREATED)
    (plugin / path).write_text(content)
    for trusted in ((TRUSTED,), ()):
        with pytest.raises(PluginSignatureError, match=says) as caught:
            verified(plugin, *trusted)
        assert caught.value.expected != caught.value.actual


@pytest.mark.parametrize(("name", "version"), [("demo2", "1.0.0"), ("demo", "1.0.1")])
def test_a_signature_of_another_name_or_version_is_refused(plugin: Path, name: str, version: str) -> None:
    signatures.sign_plugin(plugin, [KEY], CREATED)
    with pytest.raises(PluginSignatureError, match="another plugin"):
        signatures.verify_signature(plugin, trusted=[TRUSTED], name=name, version=version)


def test_a_wrong_signature_of_a_known_key_is_refused_even_beside_a_right_one(plugin: Path) -> None:
    made = signatures.sign_plugin(plugin, [KEY, OTHER], CREATED)
    (_, first), (other_id, second) = made.signatures
    swapped = dataclasses.replace(made, signatures=((KEY_ID, second), (other_id, second)))
    with pytest.raises(PluginSignatureError, match=f"signature of key {KEY_ID} is wrong"):
        verified(plugin, TRUSTED, content=swapped.content())
    both = dataclasses.replace(made, signatures=((KEY_ID, first), (KEY_ID, second)))
    with pytest.raises(PluginSignatureError, match=f"signature of key {KEY_ID} is wrong"):
        verified(plugin, TRUSTED, content=both.content())
    assert verified(plugin, content=swapped.content()).trusted == ()


def test_a_payload_with_another_signature_is_refused(plugin: Path) -> None:
    made = signatures.sign_plugin(plugin, [KEY], CREATED)
    later = signatures.signed(dataclasses.replace(made.claims, created="2027-01-01T00:00:00Z"), [KEY])
    forged = dataclasses.replace(later, signatures=made.signatures)
    with pytest.raises(PluginSignatureError, match="is wrong"):
        verified(plugin, TRUSTED, content=forged.content())


DAMAGES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"format": "molecule-plugin-sig/2"}, {}, "not of the format"),
    ({"payload": "e30="}, {}, "not base64url"),
    ({"payload": 5}, {}, "not base64url"),
    ({"payload": keys.to_base64url(b"[]")}, {}, "not a JSON object"),
    ({"payload": keys.to_base64url(b"{}")}, {}, "has no content_sha256"),
    ({"signatures": []}, {}, "no signatures"),
    ({"signatures": {}}, {}, "no signatures"),
    ({"signatures": [1]}, {}, "without key_id"),
    ({}, {"alg": "none"}, "not of Ed25519"),
    ({}, {"key_id": None}, "without key_id"),
    ({}, {"sig": "!"}, "not base64url"),
    ({}, {"sig": ""}, "is wrong"),
    ({"padding": "x" * 9000}, {}, "larger than 8192"),
]


@pytest.mark.parametrize(("file", "entry", "says"), DAMAGES)
def test_a_damaged_signature_is_refused_in_words(
    plugin: Path, file: dict[str, Any], entry: dict[str, Any], says: str
) -> None:
    shape = json.loads(signatures.sign_plugin(plugin, [KEY], CREATED).content())
    shape["signatures"][0] |= entry
    with pytest.raises(PluginSignatureError, match=says):
        verified(plugin, TRUSTED, content=json.dumps(shape | file).encode())


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_reading_any_bytes_gives_a_signature_or_its_error(content: bytes) -> None:
    with pytest.raises(PluginSignatureError):
        signatures.parse_signature(content)


def test_a_large_signature_file_is_refused_without_reading_it_all(plugin: Path) -> None:
    (plugin / "plugin.sig").write_bytes(b" " * 10_000_000)
    assert len(signatures.read_signature(plugin) or b"") == 8193
    with pytest.raises(PluginSignatureError, match="larger than 8192"):
        verified(plugin)


def test_signing_needs_a_manifest_and_a_key(plugin: Path) -> None:
    with pytest.raises(PluginSignatureError, match="keygen"):
        signatures.sign_plugin(plugin, [])
    (plugin / "plugin.yaml").unlink()
    with pytest.raises(PluginManifestError, match=r"no plugin\.yaml"):
        signatures.sign_plugin(plugin, [KEY])
    assert not (plugin / "plugin.sig").exists()


def test_a_key_file_is_private_never_replaced_and_read_back(tmp_path: Path) -> None:
    key = keys.generate_key()
    keys.write_key_file(tmp_path / "key", key)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert keys.read_key_file(tmp_path / "key") == key
    with pytest.raises(FileExistsError):
        keys.write_key_file(tmp_path / "key", OTHER)
    assert keys.parse_public_key(key.public.text) == key.public


@pytest.mark.parametrize("text", ["", PUBLIC, "ed25519-seed:short", "ed25519-seed:" + "=" * 43, "\xff"])
def test_a_wrong_key_file_is_named_but_not_repeated(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_bytes(text.encode("latin-1"))
    with pytest.raises(PluginSignatureError, match="holds no signing key") as caught:
        keys.read_key_file(tmp_path / "key")
    assert not text or text not in str(caught.value)
    assert keys.to_base64url(SEED) not in repr(KEY)


@pytest.mark.parametrize("text", ["", "ed25519:", PUBLIC + "=", PUBLIC[:-1], "rsa:" + PUBLIC[8:], KEY.text])
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(PluginSignatureError):
        keys.parse_public_key(text)


def test_without_cryptography_a_signed_plugin_is_refused_naming_the_extra(
    plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signatures.sign_plugin(plugin, [KEY], CREATED)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    for call in (
        lambda: verified(plugin),
        lambda: verified(plugin, TRUSTED),
        lambda: signatures.sign_plugin(plugin, [KEY]),
        keys.generate_key,
    ):
        with pytest.raises(PluginSignatureError, match=r"molecule-ai-sdk\[crypto\]"):
            call()
    (plugin / "plugin.sig").unlink()
    assert not verified(plugin).signed
