"""`lock`: pin plugins by what is in their directories."""

import argparse
import sys
import tempfile
from pathlib import Path

from molecule_plugin import archive_writer, lock, verification
from molecule_plugin.cli.integrity import required_manifest, trusted_keys
from molecule_plugin.errors import LockMismatchError
from molecule_plugin.org import ORG, nodes
from molecule_plugin.plugin_manifest import MANIFEST
from molecule_plugin.values import named, texts
from molecule_plugin.yaml_reader import read_template_yaml

PLUGINS_SUBDIR = "plugins"


def lock_command(args: argparse.Namespace) -> int:
    """Run `lock`."""
    path, folders, missing = _wanted(args.paths, lock_file(args.paths))
    pinned = lock.read_lock(path)
    wrong, names = list(missing), list[str]()
    for folder in folders:
        name, entry = describe(folder)
        try:
            _hold(name, pinned.get(name), entry, args)
        except LockMismatchError as problem:
            wrong.append(str(problem))
            continue
        pinned[name] = entry
        names.append(name)
    for sentence in wrong:
        print(f"✗ {path}: {sentence}", file=sys.stderr)
    if wrong:
        return 1
    if not args.check:
        lock.write_lock(path, pinned)
    print(f"✓ {path}: {'as pinned' if args.check else 'pinned'}: {', '.join(names) or 'nothing'}")
    return 0


def lock_file(paths: list[Path]) -> Path:
    """Beside the org file, if there is one, else where the command runs."""
    org = next((path for path in map(_org_file, paths) if path is not None), None)
    return Path(lock.LOCK_FILE) if org is None else org.parent / lock.LOCK_FILE


def describe(folder: Path) -> tuple[str, lock.LockEntry]:
    """The name of the plugin in a directory and the pin of what is there now."""
    manifest = required_manifest(folder)
    found = verification.verify_plugin(folder, manifest.name, trusted=trusted_keys([]))
    with tempfile.TemporaryFile() as file:
        packed = archive_writer.write_archive(folder, file)
    source = f"local://{found.name}"
    return found.name, lock.describe(
        folder,
        version=found.version,
        source=source,
        resolved=source,
        archive_sha256=packed.archive_sha256,
        signed_by=found.signed_by,
    )


def org_plugins(org_file: Path) -> list[str]:
    """Every plugin that any workspace of an org file wants: names, or sources."""
    document = read_template_yaml(org_file)
    if document.problem:
        raise ValueError(f"{org_file}: invalid YAML: {document.problem}")
    fields = named(document.value)
    listed = [*texts(named(fields.get("defaults")).get("plugins")), *texts(fields.get("plugins"))]
    for node in nodes(fields):
        listed += texts(named(node.value).get("plugins"))
    return sorted({name for name in listed if name and name[0] not in "!-"})


def _org_file(path: Path) -> Path | None:
    if path.is_dir():
        is_org = (path / ORG).is_file() and not (path / MANIFEST).is_file()
        return path / ORG if is_org else None
    return path


def _wanted(paths: list[Path], lock_path: Path) -> tuple[Path, list[Path], list[str]]:
    """The lock, the directories to pin, and what cannot be found."""
    folders: list[Path] = []
    missing: list[str] = []
    for path in paths:
        org_file = _org_file(path)
        if org_file is None:
            folders.append(path.resolve())
            continue
        for name in org_plugins(org_file):
            folder = org_file.parent / PLUGINS_SUBDIR / name.removeprefix("local://")
            if folder.is_dir():
                folders.append(folder.resolve())
            elif not _is_pinned(name, lock_path):
                missing.append(
                    f"plugin {name}: put its directory at {folder}, or name it on the command line"
                )
    return lock_path, folders, missing


def _is_pinned(source: str, lock_path: Path) -> bool:
    return any(source in (name, entry.source) for name, entry in lock.read_lock(lock_path).items())


def _hold(name: str, pin: lock.LockEntry | None, entry: lock.LockEntry, args: argparse.Namespace) -> None:
    if args.check and pin is None:
        raise LockMismatchError(f"plugin {name} is not pinned; run: molecule-plugin lock")
    if pin is not None and name not in args.update:
        lock.check(name, pin, entry, frozen=True)
