"""`plugin.sig`: what its signers say about a plugin, and whether they said it of this one.

A signature covers the content digest and, unlike the digest, the manifest too. Whether a signature suffices
is not decided here but in `molecule_plugin.trust`.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from molecule_plugin import keys
from molecule_plugin.digest import SIGNATURE_FILE, compute_plugin_sha256, manifest_sha256
from molecule_plugin.errors import PluginManifestError, PluginSignatureError
from molecule_plugin.file_tree import Tree
from molecule_plugin.limits import LIMITS
from molecule_plugin.safe_paths import write_atomically
from molecule_plugin.trust import UNSIGNED, SignatureCheck, TrustedKey
from molecule_wire import JSON, JSONObject, jsontext

FORMAT = "molecule-plugin-sig/1"
ALGORITHM = "Ed25519"


@dataclass(frozen=True)
class Claims:
    """What is signed."""

    content_sha256: str
    created: str
    manifest_sha256: str
    name: str
    version: str

    def payload(self) -> bytes:
        """The bytes that stand in the file."""
        return json.dumps(vars(self), sort_keys=True, separators=(",", ":")).encode("ascii")


@dataclass(frozen=True)
class SignatureFile:
    """A read `plugin.sig`: its claims, the payload that says them, and each signer with its signature."""

    claims: Claims
    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Who is said to have signed, each once; nothing is verified yet."""
        return tuple(dict.fromkeys(key_id for key_id, _ in self.signatures))

    def content(self) -> bytes:
        """The bytes of the file."""
        shape: JSONObject = {
            "format": FORMAT,
            "payload": keys.to_base64url(self.payload),
            "signatures": [
                {"key_id": key_id, "alg": ALGORITHM, "sig": keys.to_base64url(signature)}
                for key_id, signature in self.signatures
            ],
        }
        return json.dumps(shape, indent=2).encode("ascii") + b"\n"


def sign_plugin(
    plugin_dir: Path | str, signing_keys: Sequence[keys.SigningKey], created: datetime | None = None
) -> SignatureFile:
    """Sign a plugin as it is on disk and write its `plugin.sig`, replacing one that is there.

    `PluginManifestError` without a usable `plugin.yaml`; `PluginSignatureError` without a key.
    """
    root = Path(plugin_dir)
    made = signed(claims_about(root, created or datetime.now(UTC)), signing_keys)
    write_atomically(root / SIGNATURE_FILE, made.content(), 0o644)
    return made


def signed(claims: Claims, signing_keys: Sequence[keys.SigningKey]) -> SignatureFile:
    """The claims with a signature of each key."""
    if not signing_keys:
        raise PluginSignatureError(
            "a signature needs at least one key; make one with: molecule-plugin keygen"
        )
    payload = claims.payload()
    return SignatureFile(
        claims, payload, tuple((key.public.key_id, key.sign(signed_bytes(payload))) for key in signing_keys)
    )


def claims_about(plugin_dir: Path, created: datetime) -> Claims:
    """What a signature made now would say about a directory."""
    from molecule_plugin.manifest import read_manifest

    manifest = read_manifest(plugin_dir)
    if manifest is None:
        raise PluginManifestError(
            f"{plugin_dir} has no plugin.yaml: write one with name and version, then sign"
        )
    moment = created.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    content = compute_plugin_sha256(plugin_dir)
    return Claims(content, moment, manifest_sha256(plugin_dir), manifest.name, manifest.version)


def signed_bytes(payload: bytes) -> bytes:
    """What a key signs."""
    return FORMAT.encode("ascii") + b"\n" + payload


def read_signature(plugin_dir: Path | str) -> bytes | None:
    """The bytes of a directory's `plugin.sig`, or `None` when it has none."""
    with Tree(Path(plugin_dir)) as tree:
        try:
            with tree.open(SIGNATURE_FILE) as file:
                return file.read(LIMITS.signature_bytes + 1)
        except FileNotFoundError:
            return None


def parse_signature(content: bytes) -> SignatureFile:
    """Read a `plugin.sig`; `PluginSignatureError` when it is none."""
    if len(content) > LIMITS.signature_bytes:
        raise PluginSignatureError(f"plugin.sig is larger than {LIMITS.signature_bytes} bytes")
    shape = _object(content, "plugin.sig")
    if shape.get("format") != FORMAT:
        raise PluginSignatureError(f"plugin.sig is not of the format {FORMAT}")
    payload = _bytes(shape.get("payload"), "payload")
    entries = shape.get("signatures")
    if not isinstance(entries, list) or not entries:
        raise PluginSignatureError("plugin.sig has no signatures")
    return SignatureFile(_claims(payload), payload, tuple(_entry(entry) for entry in entries))


def verify_signature(
    plugin_dir: Path | str,
    signature: bytes | None = None,
    *,
    trusted: Iterable[TrustedKey] = (),
    name: str,
    version: str,
) -> SignatureCheck:
    """Hold a plugin to its signature: the bytes given, or the `plugin.sig` in its directory.

    `name` and `version` are those of the manifest. `PluginSignatureError` when the signature speaks of
    another plugin, when a key in `trusted` did not make the signature under its name, or when it cannot be
    checked.
    """
    content = read_signature(plugin_dir) if signature is None else signature
    if content is None:
        return UNSIGNED
    digests = compute_plugin_sha256(plugin_dir), manifest_sha256(plugin_dir)
    return verify_claims(content, digests, trusted=trusted, name=name, version=version)


def verify_claims(
    signature: bytes, digests: tuple[str, str], *, trusted: Iterable[TrustedKey] = (), name: str, version: str
) -> SignatureCheck:
    """The same for a plugin whose content digest and digest of `plugin.yaml` are known already."""
    keys.require_cryptography()
    file = parse_signature(signature)
    _hold_to_claims(digests, file.claims, name, version)
    proven = _proven(file, list(trusted), name)
    return SignatureCheck(file.key_ids, tuple(key_id for key_id in file.key_ids if key_id in proven))


def _hold_to_claims(digests: tuple[str, str], claims: Claims, name: str, version: str) -> None:
    for what, claimed, found in (
        ("name", claims.name, name),
        ("version", claims.version, version),
        ("content digest", claims.content_sha256, digests[0]),
        ("digest of plugin.yaml", claims.manifest_sha256, digests[1]),
    ):
        if claimed != found:
            raise PluginSignatureError(
                f"plugin.sig was made for another plugin: it says {what} {claimed[:128]!r}, found {found!r};"
                " the plugin was changed after it was signed",
                expected=claimed,
                actual=found,
            )


def _proven(file: SignatureFile, trusted: Sequence[TrustedKey], name: str) -> set[str]:
    """The signers whose key is trusted for the plugin; a wrong signature of any key we know is refused."""
    payload = signed_bytes(file.payload)
    proven: set[str] = set()
    for key_id, signature in file.signatures:
        for entry in trusted:
            if entry.key.key_id == key_id:
                if not entry.key.verifies(signature, payload):
                    raise PluginSignatureError(f"the signature of key {key_id} is wrong")
                if entry.covers(name):
                    proven.add(key_id)
    return proven


def _claims(payload: bytes) -> Claims:
    shape = _object(payload, "the payload of plugin.sig")
    values: dict[str, str] = {}
    for member in Claims.__dataclass_fields__:
        value = shape.get(member)
        if not isinstance(value, str):
            raise PluginSignatureError(f"the payload of plugin.sig has no {member}")
        values[member] = value
    return Claims(**values)


def _entry(entry: JSON) -> tuple[str, bytes]:
    shape = entry if isinstance(entry, dict) else {}
    key_id = shape.get("key_id")
    if shape.get("alg") != ALGORITHM or not isinstance(key_id, str):
        raise PluginSignatureError(f"plugin.sig has a signature without key_id, or not of {ALGORITHM}")
    return key_id, _bytes(shape.get("sig"), "sig")


def _bytes(value: JSON, member: str) -> bytes:
    try:
        return keys.from_base64url(value if isinstance(value, str) else "=")
    except ValueError:
        raise PluginSignatureError(f"{member} of plugin.sig is not base64url without padding") from None


def _object(content: bytes, what: str) -> JSONObject:
    try:
        value = jsontext.decode(content)
    except jsontext.NotJSON:
        value = None
    if not isinstance(value, dict):
        raise PluginSignatureError(f"{what} is not a JSON object")
    return value
