"""`uninstall_plugin`, `list_plugins`, `verify_plugins`: from what the ledgers say."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import requests

from molecule_agent import errors
from molecule_agent.plugins import download, records
from molecule_agent.plugins.install import LOCK_WAIT
from molecule_agent.plugins.records import PluginHome
from molecule_plugin import atomic_swap, lock, names, revocations
from molecule_plugin.file_writer import mode_of
from molecule_plugin.ledger import InstallLedger
from molecule_plugin.lock import LockEntry
from molecule_plugin.safe_paths import is_plain_file
from molecule_wire.calls import plugins, workspaces

if TYPE_CHECKING:
    from molecule_agent.client import RemoteAgentClient

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class InstalledPlugin:
    """A plugin in the agent's directory."""

    name: str
    version: str
    source: str
    resolved: str
    content_sha256: str
    signed_by: tuple[str, ...]
    installed_at: str
    path: Path


def list_plugins(client: "RemoteAgentClient") -> list[InstalledPlugin]:
    """What is installed, by name."""
    home = PluginHome(client.token_file.parent)
    locked = home.locked()
    return [_shown(home, ledger, locked.get(name)) for name, ledger in sorted(home.ledgers().items())]


def verify_plugins(client: "RemoteAgentClient") -> dict[str, list[str]]:
    """Each installed plugin with what is wrong with it; an empty list is good."""
    home = PluginHome(client.token_file.parent)
    cached = revocations.read_cache(home.directory / download.CACHE_FILE)
    known = cached.revocations if cached else revocations.Revocations()
    locked, ledgers = home.locked(), sorted(home.ledgers().items())
    return {name: _problems(home, ledger, locked.get(name), known) for name, ledger in ledgers}


def uninstall(client: "RemoteAgentClient", name: str) -> bool:
    """Remove a plugin, except what was edited or added in its directory; false when it is not installed."""
    names.check_name(name)
    home = PluginHome(client.token_file.parent)
    with client._store.locked(LOCK_WAIT), atomic_swap.change(home.directory, home.trees) as change:
        installed = _remove(home, change, name)
    _tell(client, name)
    return installed


def _remove(home: PluginHome, change: atomic_swap.Change, name: str) -> bool:
    tree, ledger = home.tree(name), home.ledgers().get(name)
    if ledger is None and not tree.exists():
        return False
    kept = _kept(home, ledger) if ledger else {}
    if tree.exists():
        change.remove_tree(tree)
    for path, (content, mode) in kept.items():
        log.warning("plugin %s: %s is not as it was installed; it was kept", name, path)
        change.write(home.root.path(path), content, mode)
    change.remove(home.ledger_file(name))
    locked = home.locked()
    if locked.pop(name, None) is not None:
        change.write(home.lock_file, lock.lock_content(locked))
    return True


def _kept(home: PluginHome, ledger: InstallLedger) -> dict[str, tuple[bytes, int]]:
    found = records.differences(home, ledger)
    places = [home.directory / path for path in (*found.changed, *found.added)]
    files = records.recordable(home, filter(is_plain_file, places))
    return {path: (home.root.path(path).read_bytes(), mode_of(home.root.path(path), 0o644)) for path in files}


def _tell(client: "RemoteAgentClient", name: str) -> None:
    try:
        client._perform(plugins.forget(client.workspace_id, name), workspaces.read_nothing)
    except errors.NotFoundError:
        return
    except (errors.MoleculeError, requests.RequestException) as error:
        log.warning("the platform could not be told that %s is gone: %s", name, error)


def _shown(home: PluginHome, ledger: InstallLedger, entry: LockEntry | None) -> InstalledPlugin:
    return InstalledPlugin(
        ledger.name,
        ledger.version,
        ledger.source,
        entry.resolved if entry else "",
        ledger.content_sha256,
        entry.signed_by if entry else (),
        ledger.installed_at,
        home.tree(ledger.name),
    )


def _problems(
    home: PluginHome, ledger: InstallLedger, entry: LockEntry | None, known: revocations.Revocations
) -> list[str]:
    found = records.differences(home, ledger)
    problems = [f"missing: {path}" for path in found.missing]
    problems += [f"changed: {path}" for path in found.changed]
    problems += [f"added after install: {path}" for path in found.added]
    if entry is None:
        problems.append("not in plugins.lock")
    elif entry.content_sha256 != ledger.content_sha256:
        problems.append("plugins.lock pins another content")
    signers = entry.signed_by if entry else ()
    reason = known.find(ledger.name, ledger.version, ledger.content_sha256, signers)
    return problems if reason is None else [*problems, f"revoked: {reason}"]
