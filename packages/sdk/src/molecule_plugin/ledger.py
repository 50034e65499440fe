"""What an install did, exactly: the record that makes upgrading and uninstalling exact.

A ledger lies on a disk that others write to, so reading one checks all of it: names, types, and that every
path stays inside the directory it speaks of.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from molecule_plugin import errors
from molecule_plugin.atomic_swap import Change
from molecule_plugin.names import is_name
from molecule_plugin.safe_paths import Root
from molecule_plugin.settings_merge import Entries, Hook
from molecule_wire import JSON, JSONObject, jsontext

LEDGER_VERSION = 1
LEDGER_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class LedgerFile:
    """A file that was written: its POSIX path below the configs directory, its digest and mode."""

    path: str
    sha256: str
    mode: int


@dataclass(frozen=True)
class MemoryBlock:
    """A fenced block in a memory file."""

    file: str
    block: str
    sha256: str


@dataclass(frozen=True)
class OriginalFile:
    """What a file that plugins share was before the first of them touched it; neither when there was none."""

    sha256: str | None = None
    text: str | None = None


@dataclass(frozen=True)
class SetupRecord:
    """How `setup.sh` went; `created` are the outermost paths it made in the plugin's directory."""

    ran: bool = False
    exit_code: int | None = None
    seconds: float = 0.0
    created: tuple[str, ...] = ()


@dataclass
class InstallLedger:
    """What one plugin has in a configs directory.

    While an install runs, `work` is how it writes; adaptors that write files by themselves name them in
    `files_written` of their result instead.
    """

    name: str = ""
    version: str = ""
    runtime: str = ""
    source: str = ""
    adaptor: str = ""
    content_sha256: str = ""
    installed_at: str = ""
    files: dict[str, LedgerFile] = field(default_factory=dict[str, LedgerFile])
    dirs: list[str] = field(default_factory=list[str])
    memory: list[MemoryBlock] = field(default_factory=list[MemoryBlock])
    settings: Entries = field(default_factory=Entries)
    tools: list[str] = field(default_factory=list[str])
    subagents: list[str] = field(default_factory=list[str])
    setup: SetupRecord = field(default_factory=SetupRecord)
    warnings: list[str] = field(default_factory=list[str])
    before: dict[str, OriginalFile] = field(default_factory=dict[str, OriginalFile])
    work: "InstallSession | None" = field(default=None, repr=False, compare=False)

    def add_file(self, path: str, sha256: str, mode: int) -> None:
        """Note a file that belongs to the plugin."""
        self.files[path] = LedgerFile(path, sha256, mode)

    def content(self) -> bytes:
        """The bytes of the ledger's file."""
        return jsontext.encode(self.to_json()) + b"\n"

    def to_json(self) -> JSONObject:
        """The record as it is kept."""
        return {
            "ledger_version": LEDGER_VERSION,
            **{name: str(getattr(self, name)) for name in _TEXTS},
            "files": [
                {"path": file.path, "sha256": file.sha256, "mode": f"{file.mode:04o}"}
                for file in self.files.values()
            ],
            "dirs": list(self.dirs),
            "memory": [dict(vars(block)) for block in self.memory],
            "settings": _settings_to_json(self.settings),
            "tools": list(self.tools),
            "subagents": list(self.subagents),
            "setup": {**vars(self.setup), "created": [path for path in self.setup.created if _is_utf8(path)]},
            "warnings": list(self.warnings),
            "before": {path: dict(vars(before)) for path, before in self.before.items()},
        }


@dataclass
class InstallSession:
    """An install in progress: how it writes, what the plugin had before, and what other plugins have."""

    change: Change
    previous: InstallLedger | None = None
    others: Mapping[str, InstallLedger] = field(default_factory=dict[str, InstallLedger])


def read_ledger(path: Path, root: Root) -> InstallLedger | None:
    """The ledger in a file, or `None` without one; `PluginError` when it cannot be relied on."""
    try:
        with path.open("rb") as file:
            return parse_ledger(jsontext.decode(file.read(LEDGER_BYTES)), path.stem, root)
    except FileNotFoundError:
        return None
    except (jsontext.NotJSON, _DamagedLedger, errors.PluginError) as problem:
        raise errors.PluginError(
            f"{path} cannot be relied on ({problem}): move it away, then install the plugin again"
        ) from problem


def read_ledgers(directory: Path, root: Root) -> dict[str, InstallLedger]:
    """Every ledger of a directory by plugin name; those that cannot be relied on are left out."""
    found: dict[str, InstallLedger] = {}
    for path in sorted(directory.glob("*.json")):
        try:
            ledger = read_ledger(path, root)
        except errors.PluginError:
            continue
        if ledger is not None:
            found[ledger.name] = ledger
    return found


def parse_ledger(value: JSON, name: str, root: Root) -> InstallLedger:
    """Read the ledger of plugin `name` about the directory `root`."""
    shape = _object(value)
    if shape.get("ledger_version") != LEDGER_VERSION:
        raise _DamagedLedger(f"it is not of version {LEDGER_VERSION}")
    if not is_name(name) or shape.get("name") != name:
        raise _DamagedLedger("it is not about the plugin of its file name")
    files = [_file(row, root) for row in _rows(shape, "files")]
    return InstallLedger(
        *(_text(shape, member) for member in _TEXTS),
        files={file.path: file for file in files},
        dirs=[_inside(path, root) for path in _texts(shape, "dirs")],
        memory=[_block(row, root) for row in _rows(shape, "memory")],
        settings=_settings(_object(shape.get("settings", {}))),
        tools=_texts(shape, "tools"),
        subagents=_texts(shape, "subagents"),
        setup=_setup(_object(shape.get("setup", {})), root),
        warnings=_texts(shape, "warnings"),
        before={
            _inside(path, root): _before(_object(row))
            for path, row in _object(shape.get("before", {})).items()
        },
    )


_TEXTS = ("name", "version", "runtime", "source", "adaptor", "content_sha256", "installed_at")


class _DamagedLedger(ValueError):
    """The text says what is wrong with a ledger."""


def _is_utf8(path: str) -> bool:
    """Whether a path can be written down; a script may make files of any name."""
    return path.encode(errors="ignore").decode() == path


def _settings_to_json(settings: Entries) -> JSONObject:
    return {
        "hooks": [
            {"event": hook.event, "matcher": hook.matcher, "commands": list(hook.commands)}
            for hook in settings.hooks
        ],
        "mcpServers": dict(settings.servers),
        "keys": dict(settings.keys),
    }


def _settings(shape: JSONObject) -> Entries:
    hooks = [
        Hook(_text(row, "event"), _text(row, "matcher"), tuple(_texts(row, "commands")))
        for row in _rows(shape, "hooks")
    ]
    return Entries(hooks, _digests(shape, "mcpServers"), _digests(shape, "keys"))


def _digests(shape: JSONObject, member: str) -> dict[str, str]:
    values = _object(shape.get(member, {}))
    return {name: _text(values, name) for name in values}


def _file(row: JSONObject, root: Root) -> LedgerFile:
    try:
        mode = int(_text(row, "mode"), 8)
    except ValueError:
        raise _DamagedLedger("a file has no mode") from None
    return LedgerFile(_inside(_text(row, "path"), root), _text(row, "sha256"), mode & 0o777)


def _block(row: JSONObject, root: Root) -> MemoryBlock:
    return MemoryBlock(_inside(_text(row, "file"), root), _text(row, "block"), _text(row, "sha256"))


def _setup(shape: JSONObject, root: Root) -> SetupRecord:
    code, seconds = shape.get("exit_code"), shape.get("seconds", 0)
    if not isinstance(code, int | None) or not isinstance(seconds, int | float):
        raise _DamagedLedger("setup is not understood")
    created = tuple(_inside(path, root) for path in _texts(shape, "created"))
    return SetupRecord(shape.get("ran") is True, code, float(seconds), created)


def _before(shape: JSONObject) -> OriginalFile:
    sha256, text = shape.get("sha256"), shape.get("text")
    if not isinstance(sha256, str | None) or not isinstance(text, str | None):
        raise _DamagedLedger("before is not understood")
    return OriginalFile(sha256, text)


def _inside(path: str, root: Root) -> str:
    root.path(path)
    return path


def _object(value: JSON) -> JSONObject:
    if not isinstance(value, dict):
        raise _DamagedLedger("a part of it is not an object")
    return value


def _rows(shape: JSONObject, member: str) -> list[JSONObject]:
    rows = shape.get(member, [])
    if not isinstance(rows, list):
        raise _DamagedLedger(f"{member} is not a list")
    return [_object(row) for row in rows]


def _text(shape: JSONObject, member: str) -> str:
    value = shape.get(member, "")
    if not isinstance(value, str):
        raise _DamagedLedger(f"{member} is not a text")
    return value


def _texts(shape: JSONObject, member: str) -> list[str]:
    values = shape.get(member, [])
    texts = [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
    if not isinstance(values, list) or len(texts) != len(values):
        raise _DamagedLedger(f"{member} is not a list of texts")
    return texts
