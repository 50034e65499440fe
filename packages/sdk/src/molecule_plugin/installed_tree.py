"""A plugin's own directory, held against its ledger."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from molecule_plugin.atomic_swap import Change
from molecule_plugin.file_writer import keep_beside, mode_of, sha256_of
from molecule_plugin.ledger import InstallLedger
from molecule_plugin.safe_paths import Root, files_below, is_plain_folder

CACHE = "__pycache__"


@dataclass
class TreeState:
    """Which files of a directory differ from the ledger, by path; compiled Python is not looked at."""

    modified: list[str] = field(default_factory=list[str])
    missing: list[str] = field(default_factory=list[str])
    added: list[str] = field(default_factory=list[str])


def record_tree(ledger: InstallLedger, root: Root, tree: Path, place: Path) -> None:
    """Note every file of `tree` in the ledger as the file it becomes when `tree` is moved to `place`."""
    for path in files_below(tree):
        relative = root.relative(place / path.relative_to(tree))
        ledger.add_file(relative, sha256_of(path), mode_of(path, 0o644))


def compare_tree(ledger: InstallLedger, root: Root, tree: Path) -> TreeState:
    """What happened to a plugin's directory since it was installed."""
    state = TreeState()
    own = f"{root.relative(tree)}/"
    recorded = {path: file for path, file in ledger.files.items() if path.startswith(own)}
    for path, file in recorded.items():
        digest = sha256_of(root.path(path))
        if digest != file.sha256:
            (state.modified if digest else state.missing).append(path)
    present = [path for path in files_below(tree) if CACHE not in path.parts] if recorded else []
    state.added = [relative for path in present if (relative := root.relative(path)) not in recorded]
    return state


def carry_over(ledger: InstallLedger, root: Root, tree: Path, staging: Path) -> list[str]:
    """Copy what the user changed in or added to the old version into the new one, as `<file>.user`."""
    state = compare_tree(ledger, root, tree)
    warnings: list[str] = []
    for relative in (*state.modified, *_users_own(ledger, state.added)):
        old = root.path(relative)
        beside = keep_beside(old, staging, old.relative_to(tree))
        warnings.append(f"'{relative}' is yours — kept as '{beside.name}'")
    return warnings


def remove_tree(change: Change, ledger: InstallLedger, tree: Path) -> list[str]:
    """Remove a plugin's directory, all but the files that the user changed or added; their paths."""
    state = compare_tree(ledger, change.root, tree)
    kept = [*state.modified, *_users_own(ledger, state.added)]
    if not is_plain_folder(tree):
        return []
    if not kept:
        change.remove_tree(tree)
        return []
    for path in list(files_below(tree)):
        if change.root.relative(path) not in kept:
            change.remove(path)
    change.remove_directories(path for path in tree.rglob("*") if is_plain_folder(path))
    return kept


def _users_own(ledger: InstallLedger, added: Iterable[str]) -> list[str]:
    """Of files that were added, those that `setup.sh` did not make."""
    made = ledger.setup.created
    return [path for path in added if not any(path == one or path.startswith(f"{one}/") for one in made)]
