"""What must hold of `plugin.yaml`, with the words that authors and their tools know."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from molecule_plugin import findings as found
from molecule_plugin import yaml_reader
from molecule_plugin.findings import Finding
from molecule_plugin.plugin_manifest import LIST_KEYS, MANIFEST
from molecule_plugin.secret_scan import find_secrets
from molecule_plugin.values import items, mapping, named, type_name
from molecule_plugin.yaml_reader import Document, Step
from molecule_wire import registry

EXTRA_RUNTIMES = "MOLECULE_EXTRA_RUNTIMES"
_LOWERCASE_HEX = re.compile(r"[0-9a-f]*")


def validate_manifest(path: Path | str) -> list[str]:
    """What is wrong with a `plugin.yaml`; empty when nothing is."""
    return [finding.message for finding in found.errors(manifest_findings(Path(path)))]


def manifest_findings(path: Path) -> list[Finding]:
    """The same, each with its line."""
    if not os.path.lexists(path):
        return [Finding(MANIFEST, f"manifest not found: {path}", code="manifest-missing")]
    return document_findings(yaml_reader.read_manifest_yaml(path))


def document_findings(document: Document) -> list[Finding]:
    """What is wrong with a manifest that was read."""
    if document.problem:
        return [_fault(document, f"yaml parse error: {document.problem}")]
    if mapping(document.value) is None:
        return [_fault(document, "manifest root must be a mapping")]
    return [
        *_name(document),
        *_lists(document),
        *_runtimes(document),
        *_sha256(document),
        *_secrets(document),
    ]


def known_runtimes() -> frozenset[str]:
    """The runtimes that validators accept, with underscores; the environment may name more."""
    return registry.runtimes(os.environ.get(EXTRA_RUNTIMES, "").split(","))


def _fault(document: Document, message: str, *steps: Step) -> Finding:
    return Finding(MANIFEST, message, code="manifest-invalid", line=document.line(*steps))


def _name(document: Document) -> Iterator[Finding]:
    name = named(document.value).get("name")
    if not isinstance(name, str) or not name.strip():
        yield _fault(document, "`name` is required and must be a non-empty string", "name")


def _lists(document: Document) -> Iterator[Finding]:
    fields = named(document.value)
    for key in LIST_KEYS:
        if key in fields and items(fields[key]) is None:
            yield _fault(document, f"`{key}` must be a list", key)


def _runtimes(document: Document) -> Iterator[Finding]:
    known = known_runtimes()
    for number, runtime in enumerate(items(named(document.value).get("runtimes")) or []):
        where = ("runtimes", number)
        if not isinstance(runtime, str):
            yield _fault(document, f"`runtimes` entry must be string, got {type_name(runtime)}", *where)
        elif registry.underscored(runtime) not in known:
            hint = "(use underscore form, e.g. 'claude_code')"
            yield _fault(
                document, f"unknown runtime '{runtime[:80]}' — supported: {sorted(known)} {hint}", *where
            )


def _sha256(document: Document) -> Iterator[Finding]:
    fields = named(document.value)
    digest = fields.get("sha256")
    if "sha256" not in fields:
        return
    if not isinstance(digest, str):
        yield _fault(document, "`sha256` must be a string (64 lowercase hex characters)", "sha256")
    elif len(digest) != 64:
        yield _fault(document, f"`sha256` must be exactly 64 hex characters, got {len(digest)}", "sha256")
    elif not _LOWERCASE_HEX.fullmatch(digest):
        yield _fault(document, "`sha256` must contain only lowercase hex characters (0–9, a–f)", "sha256")


def _secrets(document: Document) -> Iterator[Finding]:
    for secret in find_secrets(document.value):
        message = (
            f"possible secret detected in `{secret.key}`: {secret.kind} — "
            "bundles must not contain credentials; use platform secrets instead"
        )
        yield Finding(MANIFEST, message, code="secret", line=document.line(*secret.steps))
