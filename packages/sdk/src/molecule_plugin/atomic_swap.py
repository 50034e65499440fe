"""Replacing a plugin so that a kill at any moment leaves the old version or the new one, never a half.

    with one_at_a_time(lock_file), change(root, trees) as swap:
        staging = swap.staging(name)            # empty, private; extract and verify here
        swap.replace_tree(staging, trees / name)  # the old version is kept aside
        ...                                     # setup.sh, adaptor
        swap.write(ledger_file, data)           # or: swap.keep(path), then change the file in any way

What the body is about to change is written to an undo log first. An error in the body undoes everything and
goes on to the caller; the end of the body renames the log, which is the one step that makes the change final,
and then the old version. The next `change` (or `recover`) undoes what a killed process left. The caller holds
a lock over the whole, since `.staging-*` and `.previous-*` in `trees` are swept as left-overs.
"""

import contextlib
import json
import logging
import os
import shutil
from collections.abc import Generator, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from molecule_plugin import errors, safe_paths
from molecule_plugin.safe_paths import Root, is_plain_folder

UNDO_DIRECTORY = ".undo"
STAGING_PREFIX = ".staging-"
PREVIOUS_PREFIX = ".previous-"
_LOG = "log"
_FINAL = "final"

log = logging.getLogger("molecule_plugin")


@contextlib.contextmanager
def change(root: Path, trees: Path) -> Generator["Change"]:
    """Change files below `root` and plugin directories in `trees` (`<root>/plugins`, say): all or nothing."""
    recover(root, trees)
    swap = Change(root, trees)
    try:
        yield swap
    except BaseException:
        swap.roll_back()
        raise
    swap.commit()


def recover(root: Path, trees: Path) -> bool:
    """Put right what a killed process left; true when a change was undone. Call it under the lock."""
    swap = Change(root, trees)
    if not swap.is_interrupted():
        swap.sweep()
        return False
    log.warning("undoing a plugin install that was interrupted below %s", root)
    swap.roll_back()
    return True


@dataclass(frozen=True)
class _Step:
    """One line of the undo log: what is about to happen to `path`."""

    op: str
    path: str
    aside: str = ""


class Change:
    """One change in progress; made by `change`."""

    def __init__(self, root: Path, trees: Path) -> None:
        self.root = Root(root)
        self.trees = Path(os.path.abspath(trees))
        self.made: list[str] = []
        self._undo = self.trees / UNDO_DIRECTORY
        self._log_file = self._undo / _LOG
        self._final_file = self._undo / _FINAL
        self._kept: set[str] = set()
        self._aside: list[Path] = []
        self._unneeded: list[Path] = []

    def staging(self, name: str) -> Path:
        """A new empty directory beside the plugins, for this process's user alone."""
        self._open_log()
        staging = self.trees / f"{STAGING_PREFIX}{name}-{os.urandom(4).hex()}"
        staging.mkdir(mode=0o700)
        return staging

    def replace_tree(self, staging: Path, target: Path) -> None:
        """Move `staging` to `target`; a version that is there is kept aside until the change is final."""
        staging.chmod(0o755)
        if os.path.lexists(target):
            self.remove_tree(target)
        else:
            self._record(_Step("placed", self.root.relative(target)), durable=True)
        staging.rename(target)

    def remove_tree(self, target: Path) -> None:
        """Move `target` aside; it is gone when the change is final."""
        previous = self.trees / f"{PREVIOUS_PREFIX}{target.name}-{os.urandom(4).hex()}"
        step = _Step("moved", self.root.relative(target), self.root.relative(previous))
        self._record(step, durable=True)
        target.rename(previous)
        self._aside.append(previous)

    def keep(self, path: Path) -> None:
        """Remember the file at `path`, or that there is none, before it is written or removed."""
        relative = self.root.relative(path)
        if relative in self._kept:
            return
        if is_plain_folder(path):
            raise errors.PluginError(f"{relative} is a directory where a file should be")
        if os.path.lexists(path):
            self._record(_Step("kept", relative, self._copy_aside(path)))
        else:
            self._record(_Step("absent", relative))
        self._kept.add(relative)

    def write(self, path: Path, data: bytes, mode: int = 0o600) -> None:
        """Write a file in one step, and the directories above it."""
        self.make_directories(path.parent)
        self.keep(path)
        safe_paths.write_atomically(path, data, mode, self._workshop())

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        self.keep(path)
        path.unlink(missing_ok=True)

    def make_directories(self, directory: Path) -> None:
        """Make a directory and those above it, remembering in `made` which were missing."""
        for missing in self.root.missing_above(directory):
            relative = self.root.relative(missing)
            self._record(_Step("made", relative))
            missing.mkdir(exist_ok=True)
            self._note_made(relative)

    def remove_directories(self, directories: Iterable[Path]) -> None:
        """Remove these directories when the change is final, those of them that are then empty."""
        self._unneeded += directories

    def is_interrupted(self) -> bool:
        """True while an undo log is there: a change began and did not become final."""
        return self._log_file.exists()

    def left_something(self) -> bool:
        """True while anything is there that only a change in progress needs."""
        return any(os.path.lexists(path) for path in (self._undo, *self._versions()))

    def commit(self) -> None:
        """Make the change final, then remove the old version."""
        if self.is_interrupted():
            for directory in self._unneeded:
                self._record(_Step("unneeded", self.root.relative(directory)))
            self._log_file.replace(self._final_file)
        self.sweep()

    def roll_back(self) -> None:
        """Undo what the log says, the last step first. May itself be killed and run again."""
        steps = self._steps(self._log_file)
        for count in range(len(steps), 0, -1):
            self._undo_one(steps[count - 1])
            if steps[count - 1].op != "made":
                self._forget_after(steps[: count - 1])
        self._unneeded = [self.root.path(step.path) for step in steps if step.op == "made"]
        self.commit()

    def sweep(self) -> None:
        """Remove what only a change in progress needs, and the directories that a final one left empty."""
        steps = self._steps(self._final_file)
        unneeded = [self.root.path(step.path) for step in steps if step.op == "unneeded"]
        for left in self._versions():
            safe_paths.remove(left)
        _remove_if_empty(unneeded)
        safe_paths.remove(self._undo)
        _remove_if_empty(unneeded)

    def _versions(self) -> list[Path]:
        return [*self.trees.glob(f"{STAGING_PREFIX}*"), *self.trees.glob(f"{PREVIOUS_PREFIX}*")]

    def _open_log(self) -> None:
        if self._undo.is_dir():
            return
        above = [self.root.relative(directory) for directory in self.root.missing_above(self.trees)]
        self._undo.mkdir(mode=0o700, parents=True)
        for relative in above:
            self._record(_Step("made", relative))
            self._note_made(relative)

    def _note_made(self, relative: str) -> None:
        if relative not in self.made:
            self.made.append(relative)

    def _record(self, step: _Step, *, durable: bool = False) -> None:
        self._open_log()
        handle = os.open(self._log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, _line(step))
            if durable:
                os.fsync(handle)
        finally:
            os.close(handle)

    def _copy_aside(self, path: Path) -> str:
        self._open_log()
        image = str(len(self._kept))
        shutil.copy2(path, self._undo / image, follow_symlinks=False)
        return image

    def _workshop(self) -> Path | None:
        """Where files are written before they are moved into place; what a kill leaves there is swept."""
        return self._undo

    def _steps(self, log_file: Path) -> list[_Step]:
        """The steps of a log; a torn last line announces one that was never taken."""
        try:
            lines = log_file.read_bytes().split(b"\n")
            return [_Step(**json.loads(line)) for line in lines[:-1]]
        except FileNotFoundError:
            return []
        except (ValueError, TypeError) as error:
            raise errors.PluginError(
                f"{log_file} cannot be read; look into {self.trees}, then remove {self._undo}"
            ) from error

    def _forget_after(self, steps: list[_Step]) -> None:
        """Shorten the log to these steps: should we be killed now, what is undone is not undone twice."""
        os.truncate(self._log_file, sum(len(_line(step)) for step in steps))

    def _undo_one(self, step: _Step) -> None:
        path = self.root.path(step.path)
        match step.op:
            case "placed" | "absent":
                safe_paths.remove(path)
            case "kept":
                self._put_back(path, self._undo / Path(step.aside).name)
            case "moved":
                self._move_back(path, self.root.path(step.aside))
            case "made":
                safe_paths.remove_if_empty(path)
            case _:
                pass

    def _put_back(self, path: Path, image: Path) -> None:
        copy = image.with_name(f"{image.name}.copy")
        copy.unlink(missing_ok=True)
        shutil.copy2(image, copy, follow_symlinks=False)
        copy.replace(path)

    def _move_back(self, path: Path, previous: Path) -> None:
        if os.path.lexists(previous):
            safe_paths.remove(path)
            previous.rename(path)


def _line(step: _Step) -> bytes:
    return json.dumps(asdict(step)).encode() + b"\n"


def _remove_if_empty(directories: Iterable[Path]) -> None:
    for directory in sorted(directories, key=lambda path: len(path.parts), reverse=True):
        safe_paths.remove_if_empty(directory)


class UnloggedChange(Change):
    """The same steps without an undo log, for an adaptor outside an install; end it with `commit`."""

    def commit(self) -> None:
        """Remove what this change itself put aside."""
        for aside in self._aside:
            safe_paths.remove(aside)
        _remove_if_empty(self._unneeded)

    def _open_log(self) -> None:
        self.make_directories(self.trees)

    def _record(self, step: _Step, *, durable: bool = False) -> None:
        pass

    def _copy_aside(self, path: Path) -> str:
        return ""

    def _workshop(self) -> None:
        return None
