"""The whole verification of a plugin in staging: each thing that can be wrong, and how it is told."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from molecule_plugin import keys, signatures
from molecule_plugin.digest import compute_plugin_sha256, manifest_sha256
from molecule_plugin.errors import (
    PluginManifestError,
    PluginNameError,
    PluginRevokedError,
    PluginSignatureError,
    PluginSignatureRequiredError,
    SHA256MismatchError,
    UnsafeArchiveError,
)
from molecule_plugin.revocations import Revocations, RevokedDigest, RevokedKey, RevokedPlugin
from molecule_plugin.trust import TrustedKey
from molecule_plugin.verification import NO_MANIFEST, verify_plugin

KEY = keys.SigningKey(bytes(range(32)))
TRUSTED = TrustedKey(KEY.public)
MANIFEST = "name: demo\nversion: 1.0.0\n"
CONTENT = "e869ce07cf8aad51109fad329f5f6a0c367d579b326f70442d260dadaa185641"


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_bytes(b"hello\n")
    (tmp_path / "plugin.yaml").write_text(MANIFEST)
    return tmp_path


@pytest.fixture
def signed(plugin: Path) -> Path:
    signatures.sign_plugin(plugin, [KEY], datetime(2026, 1, 1, tzinfo=UTC))
    return plugin


def test_a_plugin_that_is_right_comes_with_all_that_is_known_of_it(signed: Path) -> None:
    content = compute_plugin_sha256(signed)
    found = verify_plugin(signed, "demo", expected=content, trusted=[TRUSTED], policy="require")
    assert (found.name, found.version, found.content_sha256) == ("demo", "1.0.0", content)
    assert (found.matched, found.signed_by, found.warnings) == ("content", (KEY.public.key_id,), ())
    assert len(found.manifest_sha256) == 64


def test_a_digest_that_covers_only_the_manifest_comes_with_a_warning(plugin: Path) -> None:
    found = verify_plugin(plugin, "demo", expected=manifest_sha256(plugin))
    assert found.matched == "legacy-manifest"
    assert "proves nothing of the other files" in found.warnings[0]


def test_the_name_is_checked_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(PluginNameError):
        verify_plugin(tmp_path / "absent", "../demo")


def test_another_name_or_a_damaged_manifest_is_refused(plugin: Path) -> None:
    with pytest.raises(PluginManifestError, match="says 'demo'"):
        verify_plugin(plugin, "other")
    (plugin / "plugin.yaml").write_text("name: [")
    with pytest.raises(PluginManifestError):
        verify_plugin(plugin, "demo")


def test_a_plugin_without_manifest_passes_with_a_warning_but_never_for_a_signed_one(signed: Path) -> None:
    (signed / "plugin.yaml").unlink()
    with pytest.raises(PluginSignatureError):
        verify_plugin(signed, "demo")
    (signed / "plugin.sig").unlink()
    found = verify_plugin(signed, "demo")
    assert (found.version, found.manifest_sha256, found.warnings) == ("0.0.0", "", (NO_MANIFEST,))


@pytest.mark.parametrize("digest", ["manifest", "caller", "manifest.json"])
def test_a_digest_that_does_not_match_is_refused(plugin: Path, digest: str) -> None:
    wrong = "0" * 64
    if digest == "manifest":
        (plugin / "plugin.yaml").write_text(f'{MANIFEST}sha256: "{wrong}"\n')
    if digest == "manifest.json":
        (plugin / "manifest.json").write_text(f'{{"sha256": "{wrong}"}}')
    with pytest.raises(SHA256MismatchError) as caught:
        verify_plugin(plugin, "demo", expected=wrong if digest == "caller" else None)
    assert caught.value.expected == wrong
    if digest != "manifest.json":
        assert str(caught.value).startswith(f"plugin demo sha256 mismatch — expected {wrong}")
        assert str(caught.value).endswith("setup.sh was NOT run.")


def test_a_changed_manifest_under_a_valid_content_digest_is_refused_by_the_signature(signed: Path) -> None:
    digest = compute_plugin_sha256(signed)
    (signed / "plugin.yaml").write_text(f'{MANIFEST}sha256: "{digest}"\nhooks: [evil.sh]\n')
    for trusted in ([TRUSTED], []):
        with pytest.raises(PluginSignatureError, match=r"digest of plugin\.yaml"):
            verify_plugin(signed, "demo", trusted=trusted)


@pytest.mark.parametrize(
    "revocations",
    [
        Revocations(1, keys=(RevokedKey(KEY.public.key_id, "stolen", ""),)),
        Revocations(1, digests=(RevokedDigest(CONTENT, "stolen"),)),
        Revocations(1, plugins=(RevokedPlugin("demo", ("1.0.0",), "stolen"),)),
    ],
    ids=["key", "digest", "version"],
)
def test_a_revoked_key_digest_or_version_is_refused_however_well_signed(
    signed: Path, revocations: Revocations
) -> None:
    for trusted in ([TRUSTED], []):
        with pytest.raises(PluginRevokedError, match="stolen"):
            verify_plugin(signed, "demo", trusted=trusted, revocations=revocations)


def test_the_policy_and_the_signer_of_the_last_version_are_held_to(signed: Path) -> None:
    with pytest.raises(PluginSignatureRequiredError):
        verify_plugin(signed, "demo", policy="require")
    assert "unknown key" in verify_plugin(signed, "demo").warnings[0]
    with pytest.raises(PluginSignatureRequiredError):
        verify_plugin(signed, "demo", trusted=[TRUSTED], previous_signers=("0000000000000000",))
    verify_plugin(
        signed, "demo", trusted=[TRUSTED], previous_signers=("0000000000000000",), allow_signer_change=True
    )


def test_a_link_in_the_tree_is_refused(plugin: Path) -> None:
    (plugin / "link").symlink_to("/etc/passwd")
    with pytest.raises(UnsafeArchiveError, match="link"):
        verify_plugin(plugin, "demo")
