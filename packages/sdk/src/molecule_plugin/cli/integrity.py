"""`hash`, `keygen`, `sign`, `verify`, `pack`."""

import argparse
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from molecule_plugin import archive, archive_writer, digest, keys, lint, lock, signatures, trust, verification
from molecule_plugin.errors import PluginManifestError
from molecule_plugin.limits import LIMITS
from molecule_plugin.manifest_writer import write_sha256
from molecule_plugin.plugin_manifest import Manifest, read_manifest
from molecule_plugin.revocations import Revocations, parse_revocations
from molecule_wire import jsontext

TRUSTED_KEYS = Path(".molecule") / "trusted_keys"
_STALE = ("digest-stale", "signature-stale")


def hash_command(args: argparse.Namespace) -> int:
    """Run `hash`."""
    content = digest.compute_plugin_sha256(args.dir)
    print(content)
    if args.legacy:
        print(f"legacy-tree {digest.legacy_tree_sha256(args.dir)}")
        print(f"legacy-manifest {digest.manifest_sha256(args.dir) or 'none'}")
    if args.write:
        write_sha256(args.dir, content)
    return 0


def keygen(args: argparse.Namespace) -> int:
    """Run `keygen`."""
    key = keys.generate_key()
    if args.out is not None:
        keys.write_key_file(args.out, key)
    print(key.public.text)
    print(f"key id: {key.public.key_id}")
    print(f"secret key: {key.text if args.out is None else args.out}")
    return 0


def sign(args: argparse.Namespace) -> int:
    """Run `sign`."""
    signing_keys = [keys.read_key_file(path) for path in args.key]
    if faults := [fault for fault in lint.errors_of(args.dir) if fault.code not in _STALE]:
        for fault in faults:
            print(f"✗ {args.dir}/{fault}", file=sys.stderr)
        return 1
    write_sha256(args.dir, digest.compute_plugin_sha256(args.dir))
    made = signatures.sign_plugin(args.dir, signing_keys)
    print(f"✓ {args.dir}: {made.claims.name} {made.claims.version} signed by {', '.join(made.key_ids)}")
    return 0


def pack(args: argparse.Namespace) -> int:
    """Run `pack`. A signature goes beside the archive, since it is never inside."""
    manifest = required_manifest(args.dir)
    out: Path = args.output or Path(f"{manifest.name}-{manifest.version}.tar.gz")
    packed = archive_writer.pack_plugin(args.dir, out)
    signature = signatures.read_signature(args.dir)
    if signature is not None:
        signature_beside(out).write_bytes(signature)
    print(f"{out}: {packed.size} bytes")
    print(f"archive sha256 {packed.archive_sha256}")
    print(f"content sha256 {packed.content_sha256}")
    return 0


def verify(args: argparse.Namespace) -> int:
    """Run `verify`."""
    with opened(args.path) as plugin:
        manifest = required_manifest(plugin.folder)
        found = verification.verify_plugin(
            plugin.folder,
            manifest.name,
            archive_sha256=plugin.archive_sha256,
            signature=plugin.signature,
            trusted=trusted_keys(args.key),
            policy="require" if args.require_signature else trust.DEFAULT_POLICY,
            revocations=_revocations(args.revocations),
        )
        if args.lock is not None:
            _hold_to_lock(args.lock, plugin, found)
    for warned in found.warnings:
        print(f"⚠ {args.path}: {warned}", file=sys.stderr)
    signed = f"signed by {', '.join(found.signed_by)}" if found.signed_by else "without a trusted signature"
    print(f"✓ {args.path}: {found.name} {found.version} {found.content_sha256} {signed}")
    return 0


@dataclass(frozen=True)
class OpenedPlugin:
    """A plugin to look at: a directory, or an archive unpacked for the moment."""

    folder: Path
    archive_sha256: str = ""
    signature: bytes | None = None


@contextmanager
def opened(path: Path) -> Generator[OpenedPlugin]:
    """Open a directory or an archive."""
    if path.is_dir():
        yield OpenedPlugin(path.resolve())
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve() / "plugin"
        folder.mkdir()
        archive.safe_extract(path, folder)
        beside = signature_beside(path)
        signature = _bounded(beside, LIMITS.signature_bytes) if beside.is_file() else None
        yield OpenedPlugin(folder, digest.sha256_file(path), signature)


def signature_beside(archive_path: Path) -> Path:
    """Where the signature of an archive is."""
    return archive_path.with_name(archive_path.name + ".sig")


def required_manifest(folder: Path) -> Manifest:
    """The manifest, which must be there."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise PluginManifestError(
            f"{folder} has no plugin.yaml; molecule-plugin init writes one to begin with"
        )
    return manifest


def trusted_keys(texts: list[str]) -> tuple[trust.TrustedKey, ...]:
    """The keys given and those that the user trusts always."""
    named_keys = tuple(trust.TrustedKey(keys.parse_public_key(text)) for text in texts)
    return named_keys + trust.read_trusted_keys(Path.home() / TRUSTED_KEYS)


def _revocations(path: Path | None) -> Revocations:
    if path is None:
        return Revocations()
    return parse_revocations(jsontext.decode(_bounded(path, lock.LOCK_BYTES)))


def _hold_to_lock(path: Path, plugin: OpenedPlugin, found: verification.VerifiedPlugin) -> None:
    entry = lock.read_lock(path).get(found.name)
    here = lock.describe(
        plugin.folder,
        version=found.version,
        source="" if entry is None else entry.source,
        resolved="" if entry is None else entry.resolved,
        archive_sha256=plugin.archive_sha256,
    )
    lock.check(found.name, entry, here, frozen=True)


def _bounded(path: Path, largest: int) -> bytes:
    with path.open("rb") as file:
        return file.read(largest + 1)
