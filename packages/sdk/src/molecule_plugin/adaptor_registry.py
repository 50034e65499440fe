"""What an adaptor says it did, checked before it goes into the ledger."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from molecule_plugin.builtins import AgentskillsAdaptor, MCPServerAdaptor, RawDropAdaptor
from molecule_plugin.claude_layer import SETTINGS_FILE
from molecule_plugin.errors import PluginError
from molecule_plugin.file_writer import mode_of, sha256_of
from molecule_plugin.ledger import InstallLedger
from molecule_plugin.protocol import PLUGINS_SUBDIR, InstallContext, InstallResult, PluginAdaptor
from molecule_plugin.safe_paths import Root, is_plain_file

_OURS = (AgentskillsAdaptor, MCPServerAdaptor, RawDropAdaptor)


def is_builtin(adaptor: PluginAdaptor) -> bool:
    """Whether an adaptor is one of the SDK's own, whose every write is in the ledger."""
    return type(adaptor) in _OURS


def files_present(adaptor: PluginAdaptor, directory: Path) -> frozenset[str]:
    """The files that are there before an adaptor of somebody else runs; it must not claim them."""
    if is_builtin(adaptor):
        return frozenset()
    return frozenset(
        Path(folder, name).relative_to(directory).as_posix()
        for folder, _, names in os.walk(directory, followlinks=False)
        for name in names
    )


class AdaptorRegistry:
    """The names that an adaptor registers while it installs."""

    def __init__(self) -> None:
        self.tools: list[str] = []
        self.subagents: list[str] = []

    def watching(self, ctx: InstallContext) -> InstallContext:
        """The same context, whose hooks also note the names."""

        def register_tool(name: str, fn: Callable[..., object]) -> None:
            self.tools.append(name)
            ctx.register_tool(name, fn)

        def register_subagent(name: str, spec: dict[str, object]) -> None:
            self.subagents.append(name)
            ctx.register_subagent(name, spec)

        return replace(ctx, register_tool=register_tool, register_subagent=register_subagent)

    def note(self, result: InstallResult, ledger: InstallLedger) -> None:
        """Put the names into the result and the ledger, each once."""
        result.tools_registered = list(dict.fromkeys((*result.tools_registered, *self.tools)))
        result.subagents_registered = list(dict.fromkeys((*result.subagents_registered, *self.subagents)))
        ledger.tools = result.tools_registered
        ledger.subagents = result.subagents_registered


def adopt_files(
    ledger: InstallLedger, root: Root, result: InstallResult, present: frozenset[str], memory_filename: str
) -> None:
    """Note the files outside its own directory that an adaptor of somebody else wrote by itself.

    A file that was there before it came is not the plugin's, nor are the ones that plugins share.
    """
    own = f"{PLUGINS_SUBDIR}/{ledger.name}/"
    previous = ledger.work.previous if ledger.work else None
    mine = set(previous.files) if previous else set[str]()
    for written in result.files_written:
        shared = written in (memory_filename, SETTINGS_FILE)
        if shared or written in ledger.files or written.startswith(own):
            continue
        try:
            path = root.path(written)
        except PluginError as problem:
            result.warnings.append(f"not recorded: {problem}")
            continue
        if is_plain_file(path) and (written not in present or written in mine):
            ledger.add_file(written, sha256_of(path), mode_of(path, 0o644))
