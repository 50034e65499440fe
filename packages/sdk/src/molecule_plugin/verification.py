"""Step four of an install: is this tree the plugin that was asked for, from someone who may give it?

It reads a tree in staging and changes nothing. The lock is checked after it, with what it found.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from molecule_plugin import digest
from molecule_plugin.errors import PluginManifestError, SHA256MismatchError
from molecule_plugin.manifest import Manifest, read_manifest
from molecule_plugin.names import check_name
from molecule_plugin.revocations import Revocations
from molecule_plugin.signatures import verify_signature
from molecule_plugin.trust import DEFAULT_POLICY, Policy, SignatureCheck, TrustedKey, decide

NO_MANIFEST = "the plugin has no plugin.yaml"
_NO_REVOCATIONS = Revocations()


@dataclass(frozen=True)
class VerifiedPlugin:
    """A plugin that may be installed. `matched` says which digest the caller's `expected` was."""

    name: str
    manifest: Manifest
    content_sha256: str
    manifest_sha256: str
    matched: digest.Form | None
    verdict: SignatureCheck
    warnings: tuple[str, ...]

    @property
    def version(self) -> str:
        return self.manifest.version

    @property
    def signed_by(self) -> tuple[str, ...]:
        """The trusted keys that signed it, as `plugins.lock` and the next install want to know them."""
        return self.verdict.trusted


def verify_plugin(
    plugin_dir: Path | str,
    name: str,
    *,
    expected: str | None = None,
    archive_sha256: str = "",
    signature: bytes | None = None,
    trusted: Iterable[TrustedKey] = (),
    policy: Policy = DEFAULT_POLICY,
    previous_signers: tuple[str, ...] = (),
    allow_signer_change: bool = False,
    revocations: Revocations = _NO_REVOCATIONS,
) -> VerifiedPlugin:
    """Verify a tree as the plugin `name`: its manifest, its digests, its signature, the revocations.

    `expected` is a digest that the caller has from elsewhere. Without `signature` the tree's own `plugin.sig`
    counts. Raises the subclass of `PluginError` that says what is wrong.
    """
    root = Path(plugin_dir)
    manifest = _manifest(root, check_name(name))
    content = digest.compute_plugin_sha256(root)
    if manifest.sha256 is not None and manifest.sha256 != content:
        raise _mismatch(name, manifest.sha256, content)
    digest.check_legacy_manifest(root)
    matched = None if expected is None else _matched(root, name, archive_sha256, expected, content)
    check = verify_signature(root, signature, trusted=trusted, name=name, version=manifest.version)
    revocations.check(name, manifest.version, content, check.key_ids)
    decision = decide(
        name, check, policy=policy, previous=previous_signers, allow_signer_change=allow_signer_change
    )
    warnings = (*manifest.warnings, *digest.caution_about(matched), *decision.or_raise())
    return VerifiedPlugin(name, manifest, content, digest.manifest_sha256(root), matched, check, warnings)


def _manifest(root: Path, name: str) -> Manifest:
    manifest = read_manifest(root)
    if manifest is None:
        return Manifest(name, warnings=(NO_MANIFEST,))
    if manifest.name != name:
        raise PluginManifestError(
            f"the plugin asked for is {name!r}, but its plugin.yaml says {manifest.name[:128]!r}: install it"
            " under its own name"
        )
    return manifest


def _matched(root: Path, name: str, archive_sha256: str, expected: str, content: str) -> digest.Form:
    matched = digest.matched_form(root, archive_sha256, expected)
    if matched is None:
        raise _mismatch(name, expected, content)
    return matched


def _mismatch(name: str, expected: str, actual: str) -> SHA256MismatchError:
    return SHA256MismatchError(
        f"plugin {name} sha256 mismatch — expected {expected}, found {actual}; setup.sh was NOT run.",
        expected,
        actual,
    )
