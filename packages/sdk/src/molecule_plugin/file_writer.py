"""How an adaptor writes into a configs directory: what is the user's or another plugin's stays."""

import hashlib
import os
import stat
from pathlib import Path

from molecule_plugin.atomic_swap import UnloggedChange
from molecule_plugin.file_tree import Tree, list_files
from molecule_plugin.ledger import InstallLedger, InstallSession, OriginalFile
from molecule_plugin.protocol import PLUGINS_SUBDIR, InstallContext, InstallResult
from molecule_plugin.safe_paths import Root, files_below, is_plain_file, is_plain_folder

USER_SUFFIX = ".user"


class InstallWriter:
    """One adaptor at work: what it writes goes to the ledger, what it had to leave alone to the warnings."""

    def __init__(self, ctx: InstallContext, result: InstallResult) -> None:
        self.root = Root(ctx.configs_dir)
        self.result = result
        self.kept: list[str] = []
        self.ledger = ctx.ledger or InstallLedger()
        self.work = self.ledger.work or InstallSession(
            UnloggedChange(ctx.configs_dir, ctx.configs_dir / PLUGINS_SUBDIR)
        )

    def copy(self, source: Path, relative: str, mode: int) -> None:
        """Put a file of the plugin at `relative`, unless what is there is not ours to replace."""
        target, data = self.root.path(relative), source.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if not os.path.lexists(target):
            self._write(target, relative, data, mode)
        elif not is_plain_file(target):
            self.warn(f"'{relative}' already exists — kept")
            return
        elif sha256_of(target) == digest:
            if not self.is_a_plugins(relative, digest):
                return
        elif not self._make_room(target, relative):
            return
        else:
            self._write(target, relative, data, mode)
        self.ledger.add_file(relative, digest, mode)

    def owned(self, relative: str) -> str | None:
        """The digest of a file as this plugin's last version wrote it."""
        previous = self.work.previous
        file = previous.files.get(relative) if previous else None
        return file.sha256 if file else None

    def is_a_plugins(self, relative: str, digest: str) -> bool:
        """Whether an installed plugin, this one's last version or another, wrote these bytes there."""
        theirs = (other.files.get(relative) for other in self.work.others.values())
        return self.owned(relative) is not None or any(file and file.sha256 == digest for file in theirs)

    def write_shared(self, path: Path, data: bytes) -> None:
        """Write a file that the user and other plugins write too; it keeps its mode."""
        self.work.change.write(path, data, mode_of(path, 0o644))

    def note_before(self, path: Path, before: OriginalFile) -> None:
        """Remember what a shared file was before any plugin touched it."""
        relative = self.root.relative(path)
        known = [self.work.previous] if self.work.previous else []
        for ledger in (*known, *self.work.others.values()):
            if relative in ledger.before:
                before = ledger.before[relative]
                break
        self.ledger.before.setdefault(relative, before)

    def finish(self) -> None:
        """Tidy up after an adaptor that ran outside an install; within one, the install does that."""
        if self.ledger.work is None:
            self.work.change.commit()

    def warn(self, text: str) -> None:
        """Tell the user, once."""
        if text not in self.result.warnings:
            self.result.warnings.append(text)

    def _write(self, target: Path, relative: str, data: bytes, mode: int) -> None:
        self.work.change.write(target, data, mode)
        self.result.files_written.append(relative)

    def _make_room(self, target: Path, relative: str) -> bool:
        owned = self.owned(relative)
        if owned is None:
            self.warn(f"'{relative}' already exists — kept")
        elif sha256_of(target) != owned:
            beside = set_aside(self, target)
            self.warn(f"'{relative}' was edited — your version is kept as '{beside.name}'")
        return owned is not None


def set_aside(writer: InstallWriter, path: Path) -> Path:
    """Keep a file that the user edited beside the one that takes its place."""
    beside = free_name(path)
    writer.work.change.write(beside, path.read_bytes(), mode_of(path, 0o644))
    return beside


def free_name(path: Path) -> Path:
    """`<file>.user`, or the first of `<file>.user2`, … that is free."""
    number = 1
    while True:
        beside = path.with_name(f"{path.name}{USER_SUFFIX}{number if number > 1 else ''}")
        if not os.path.lexists(beside):
            return beside
        number += 1


def keep_beside(edited: Path, staging: Path, relative: Path) -> Path:
    """Copy a file that the user edited into a new version, to which its old path may be a file now."""
    place = staging
    for step in relative.parent.parts:
        place /= step
        if os.path.lexists(place) and not is_plain_folder(place):
            place = free_name(place)
    place.mkdir(parents=True, exist_ok=True)
    beside = free_name(place / relative.name)
    beside.write_bytes(edited.read_bytes())
    beside.chmod(plain_mode(mode_of(edited, 0o644)) & 0o666)
    return beside


def copy_tree(source: Path, target: Path) -> None:
    """Copy a plugin's files into an empty directory: no links, no special bits, no owners."""
    with Tree(source) as old, Tree(target) as new:
        for folder in _folders(source):
            new.make_directory(folder)
        for file in list_files(source):
            with old.open(file.path) as content, new.create(file.path, plain_mode(file.mode)) as copy:
                while chunk := content.read(64 * 1024):
                    copy.write(chunk)


def _folders(source: Path) -> list[str]:
    return sorted(
        Path(folder, name).relative_to(source).as_posix()
        for folder, names, _ in os.walk(source, followlinks=False)
        for name in names
    )


def new_paths(directory: Path, known: set[Path]) -> list[Path]:
    """The outermost paths below a directory that are not `known`."""
    found: list[Path] = []
    for folder, folders, names in os.walk(directory, followlinks=False):
        found += [Path(folder, name) for name in (*folders, *names) if Path(folder, name) not in known]
        folders[:] = [name for name in folders if Path(folder, name) in known]
    return sorted(found)


def plain_mode(mode: int) -> int:
    """The mode of an installed file, whatever the archive or the author's disk said."""
    return mode & 0o755 | 0o600


def mode_of(path: Path, otherwise: int) -> int:
    """The permissions of a file that is there."""
    return stat.S_IMODE(path.lstat().st_mode) if is_plain_file(path) else otherwise


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes; empty when no regular file is there."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if is_plain_file(path) else ""


def same_files(one: Path, other: Path) -> bool:
    """Whether two directories hold the same files with the same bytes."""
    return _digests(one) == _digests(other)


def _digests(directory: Path) -> dict[str, str]:
    return {path.relative_to(directory).as_posix(): sha256_of(path) for path in files_below(directory)}
