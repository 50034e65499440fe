"""Reading a fetched tree: what it says of itself, its digests, and the archive that is sent to agents."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from molecule_platform.domain import plugins
from molecule_platform.domain.errors import ApiError
from molecule_platform.ports.plugin_sources import StagedPlugin
from molecule_plugin import archive_writer, digest, file_tree, signatures
from molecule_plugin.errors import SHA256MismatchError
from molecule_plugin.limits import Limits
from molecule_plugin.manifest import Manifest, read_manifest
from molecule_plugin.verification import NO_MANIFEST

TREE, ARCHIVE, FACTS = "tree", "archive.tar.gz", "facts.json"
# Says how many bytes all of it takes, so that nobody need count again.
ROOM = "room"
KEPT = (TREE, ARCHIVE, FACTS, ROOM)
_LONGEST = 2000
_MOST = 200


def read(folder: Path, name_hint: str, limits: Limits) -> StagedPlugin:
    """Read `folder/tree`, pack it beside itself and write down what was found."""
    tree = folder / TREE
    files = file_tree.check_tree(tree, limits)
    manifest = read_manifest(tree)
    _check_legacy(tree)
    packed = archive_writer.pack_plugin(tree, folder / ARCHIVE, limits)
    said = manifest or Manifest(name_hint, warnings=(NO_MANIFEST,))
    if said.sha256 is not None and said.sha256 != packed.content_sha256:
        raise _not_as_declared(said.sha256, packed.content_sha256)
    staged = StagedPlugin(
        name=plugins.named(said.name),
        version=said.version[:_LONGEST],
        source="",
        resolved="",
        content_sha256=packed.content_sha256,
        manifest_sha256=digest.manifest_sha256(tree),
        archive_sha256=packed.archive_sha256,
        archive=folder / ARCHIVE,
        tree=tree,
        size=packed.size,
        about=_about(said, [file.path for file in files]),
        warnings=said.warnings,
    )
    (folder / ROOM).write_text(str(packed.size + sum(file.size for file in files)))
    (folder / FACTS).write_text(json.dumps(_facts(staged)))
    return placed(staged, folder)


def kept(folder: Path) -> StagedPlugin | None:
    """What was read from a folder before; None when there is none, or only a part of it."""
    try:
        facts: dict[str, Any] = json.loads((folder / FACTS).read_bytes())
        facts["warnings"] = tuple(facts["warnings"])
        # Another version of the platform may have written down other facts.
        staged = placed(StagedPlugin(**facts, archive=folder, tree=folder), folder)
        return staged if staged.archive.stat().st_size == staged.size else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def room_of(folder: Path) -> int:
    """How many bytes a folder takes."""
    try:
        return int((folder / ROOM).read_text())
    except (OSError, ValueError):
        return 0


def placed(staged: StagedPlugin, folder: Path) -> StagedPlugin:
    """The same plugin, where the stock keeps it."""
    tree = folder / TREE
    signature = signatures.read_signature(tree)
    return replace(staged, archive=folder / ARCHIVE, tree=tree, signature=signature)


def _facts(staged: StagedPlugin) -> dict[str, Any]:
    facts = asdict(staged)
    for name in ("archive", "tree", "signature"):
        del facts[name]
    return facts


def _about(said: Manifest, paths: list[str]) -> dict[str, Any]:
    folders = {path.split("/")[1] for path in paths if path.startswith("skills/") and path.count("/") > 1}
    return {
        "description": said.description[:_LONGEST],
        "author": said.author[:_LONGEST],
        "tags": list(said.tags[:_MOST]),
        "skills": sorted(folders)[:_MOST] or list(said.skills[:_MOST]),
        "requires": list(said.requires[:_MOST]),
        "runtimes": None if said.runtimes is None else list(said.runtimes[:_MOST]),
    }


def _check_legacy(tree: Path) -> None:
    try:
        digest.check_legacy_manifest(tree)
    except SHA256MismatchError as problem:
        raise ApiError(
            "plugin-integrity", str(problem), declared=problem.expected, computed=problem.actual
        ) from problem


def _not_as_declared(declared: str, computed: str) -> ApiError:
    return ApiError(
        "plugin-integrity",
        "the content has another digest than plugin.yaml declares: its author runs "
        "`molecule-plugin hash --write` and publishes it again",
        expected=declared,
        actual=computed,
    )
