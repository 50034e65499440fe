"""Plugins of a workspace: what it has, what it could have, installing and removing."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from molecule_platform.domain import plugins
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.plugin_directories import PluginDirectories
from molecule_platform.ports.plugin_sources import PluginCache, SourceSpec, StagedPlugin
from molecule_platform.ports.plugins import InstalledPlugin
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.plugins import plugin_supply
from molecule_platform.services.plugins.plugin_supply import FetchedPlugin, PluginSupply
from molecule_platform.services.support import audit_log, event_log
from molecule_platform.services.support.audit_log import AuditActor
from molecule_platform.services.workspaces.restarts import Restarts
from molecule_plugin import names
from molecule_plugin.digest import Form, caution_about
from molecule_plugin.errors import PluginSignatureError
from molecule_wire import times

IN_USE = ("recorded", "installed")
MAX_PLUGINS = 500


@dataclass(frozen=True)
class InstallRequest:
    """A plugin that somebody wants in a workspace; `reported` when its own agent says it has it."""

    source: str
    sha256: str | None = None
    upgrade: bool = False
    allow_signer_change: bool = False
    reported: bool = False


@dataclass(frozen=True)
class InstallResult:
    """How an installation ended."""

    row: InstalledPlugin
    warnings: tuple[str, ...]
    matched: Form | None


class WorkspacePlugins:
    """Keeps what each workspace has. An external agent installs by itself, and is written down here."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        stock: PluginCache,
        supply: PluginSupply,
        homes: PluginDirectories | None,
        restarts: Restarts,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._stock = stock
        self._supply = supply
        self._homes = homes
        self._restarts = restarts
        self._busy: set[tuple[str, str]] = set()

    # Lists

    async def catalogue(self, org_id: str, runtime: str | None = None) -> list[dict[str, Any]]:
        """The platform's own plugins, those for a runtime or all."""
        rules = await self._storage.read(lambda tx: plugin_supply.rules_of(tx, org_id))
        found = await self._stock.catalogue()
        return [_offered(one, rules) for one in found if runtime is None or _suits(one.about, runtime)]

    async def installed(self, workspace: Workspace) -> list[dict[str, Any]]:
        """What a workspace has, or its agent reported."""
        found = await self._storage.read(lambda tx: tx.plugins.installed(workspace.id))
        return [_row(plugin, workspace.runtime) for plugin in found]

    async def available(self, workspace: Workspace) -> list[dict[str, Any]]:
        """What a workspace could install: made for its runtime, allowed, and not revoked."""
        rules = await self._storage.read(lambda tx: plugin_supply.rules_of(tx, workspace.org_id))
        rows = await self.catalogue(workspace.org_id, workspace.runtime)
        return [row for row in rows if plugin_supply.may_have(rules, row)]

    async def compatibility(self, workspace: Workspace, runtime: str) -> dict[str, Any]:
        """What a workspace has, split by whether it would work on another runtime."""
        found = await self._storage.read(lambda tx: tx.plugins.installed(workspace.id))
        rows = [_row(plugin, runtime) for plugin in found]
        fits, others = (
            [row for row in rows if row["supported_on_runtime"] is wanted] for wanted in (True, False)
        )
        return {
            "target_runtime": runtime,
            "compatible": fits,
            "incompatible": others,
            "all_compatible": not others,
        }

    # Installing

    async def install(self, by: AuditActor, workspace: Workspace, wish: InstallRequest) -> InstallResult:
        """Install a plugin, or write down that an external agent did."""
        spec = self._stock.parse(wish.source)
        try:
            with self._alone(workspace, spec.text):
                supplied = await self._supply.obtain(workspace.org_id, spec, upgrade=wish.upgrade)
                # Another source may hold a plugin of the same name.
                with self._alone(workspace, supplied.staged.name):
                    return await self._install(by, workspace, wish, supplied)
        except plugins.NotAllowed as refusal:
            name = refusal.name
            if wish.reported and workspace.external and names.is_name(name):
                await self._storage.write(lambda tx: self._block(tx, by, workspace, spec, name))
            raise

    @contextmanager
    def _alone(self, workspace: Workspace, what: str) -> Generator[None]:
        """Have a source, or the plugin of a name, to oneself in a workspace; a conflict if another has it."""
        key = (workspace.id, what)
        if key in self._busy:
            raise ApiError("conflict", f"{what} is being installed here already: wait for that to end")
        self._busy.add(key)
        try:
            yield
        finally:
            self._busy.discard(key)

    async def _install(
        self, by: AuditActor, workspace: Workspace, wish: InstallRequest, supplied: FetchedPlugin
    ) -> InstallResult:
        staged = supplied.staged
        matched = await self._matched(staged, wish.sha256)
        others = await self._storage.read(lambda tx: tx.plugins.installed(workspace.id))
        before = next((one for one in others if one.name == staged.name), None)
        if before is None and len(others) >= MAX_PLUGINS:
            raise ApiError("conflict", f"{workspace.name} has {MAX_PLUGINS} plugins, which is the most")
        previous = () if before is None else tuple(before.ledger.get("signed_by", ()))
        warnings = (
            *staged.warnings,
            *caution_about(matched),
            *self._supply.decide(supplied, previous, wish.allow_signer_change),
            *_cautions(staged, workspace, {one.name for one in others if one.state in IN_USE}),
        )
        state = await self._placed(workspace, staged)
        row = _record(workspace, supplied, state, warnings, self._clock.now())
        await self._storage.write(lambda tx: self._keep(tx, by, workspace, row, supplied, wish.upgrade))
        return InstallResult(row, warnings, matched)

    async def _matched(self, staged: StagedPlugin, expected: str | None) -> Form | None:
        if expected is None:
            return None
        matched = await self._stock.matched(staged, expected)
        if matched is None:
            raise ApiError(
                "plugin-integrity",
                f"the plugin {staged.name} has another digest than you expect: it is not what it was",
                expected=expected,
                actual=staged.content_sha256,
            )
        return matched

    async def _placed(self, workspace: Workspace, staged: StagedPlugin) -> str:
        """Put the files where an agent of ours finds them; an external one has them already."""
        if workspace.external or self._homes is None:
            return "recorded"
        await self._homes.place(workspace.id, staged)
        return "installed"

    def _keep(
        self,
        tx: Transaction,
        by: AuditActor,
        workspace: Workspace,
        row: InstalledPlugin,
        supplied: FetchedPlugin,
        upgrade: bool,
    ) -> None:
        if supplied.pin is not None and not plugin_supply.keep_pin(tx, supplied.pin, upgrade=upgrade):
            raise ApiError("conflict", f"{row.source} was pinned to another commit meanwhile: try again")
        before = tx.plugins.get(workspace.id, row.name)
        tx.plugins.put(row)
        audit_log.note(tx, row.org_id, by, "plugin.install", _what(row), row.installed_at)
        known = before is not None and before.state in IN_USE
        if known and before is not None and before.sha256 == row.sha256:
            return
        event = "PLUGIN_UPDATED" if known else "PLUGIN_INSTALLED"
        event_log.note(tx, event, workspace, row.installed_at, **_told(row))
        if row.state == "installed":
            self._restarts.because(tx, workspace.id, f"the plugin {row.name} was installed")

    def _block(
        self, tx: Transaction, by: AuditActor, workspace: Workspace, spec: SourceSpec, name: str
    ) -> None:
        """Write down, once, that an agent has what it may not have."""
        now, known = self._clock.now(), {one.name: one for one in tx.plugins.installed(workspace.id)}
        before = known.get(name)
        if before is not None and (before.source, before.state) == (spec.text, "blocked"):
            return
        if before is None and len(known) >= MAX_PLUGINS:
            return
        # Who had to sign it must not be forgotten by this.
        ledger = {} if before is None else {"signed_by": list(before.ledger.get("signed_by", ()))}
        row = InstalledPlugin(
            workspace.id, workspace.org_id, name, spec.text, "blocked", now, now, ledger=ledger
        )
        tx.plugins.put(row)
        audit_log.note(tx, row.org_id, by, "plugin.block", _what(row), now)
        event_log.note(tx, "PLUGIN_BLOCKED", workspace, now, **_told(row))

    # Removing

    async def uninstall(self, by: AuditActor, workspace: Workspace, name: str) -> None:
        """Take a plugin away."""
        plugins.named(name)
        if await self._storage.read(lambda tx: tx.plugins.get(workspace.id, name)) is None:
            raise _not_installed(workspace, name)
        with self._alone(workspace, name):
            if self._homes is not None and not workspace.external:
                await self._homes.remove(workspace.id, name)
            await self._storage.write(lambda tx: self._forget(tx, by, workspace, name))

    def _forget(self, tx: Transaction, by: AuditActor, workspace: Workspace, name: str) -> None:
        row, now = tx.plugins.get(workspace.id, name), self._clock.now()
        if row is None or not tx.plugins.delete(workspace.id, name):
            raise _not_installed(workspace, name)
        audit_log.note(tx, row.org_id, by, "plugin.uninstall", _what(row), now)
        event_log.note(tx, "PLUGIN_REMOVED", workspace, now, **_told(row))
        if row.state == "installed":
            self._restarts.because(tx, workspace.id, f"the plugin {name} was removed")


def _not_installed(workspace: Workspace, name: str) -> ApiError:
    return ApiError("not-found", f"{workspace.name} has no plugin {name}")


def _suits(about: Mapping[str, Any], runtime: str) -> bool:
    return plugins.supports(about.get("runtimes"), runtime)


def _offered(staged: StagedPlugin, rules: plugin_supply.OrgPluginPolicy) -> dict[str, Any]:
    """A plugin of the platform, with who signed it, if that holds."""
    try:
        signed_by = list(plugin_supply.signers(staged, rules).key_ids)
    except PluginSignatureError:
        signed_by = []
    about = {**staged.about, "signed_by": signed_by}
    return plugins.catalogue_row(staged.name, staged.version, staged.content_sha256, about)


def _row(plugin: InstalledPlugin, runtime: str) -> dict[str, Any]:
    return {
        **plugins.catalogue_row(plugin.name, plugin.version, plugin.sha256, plugin.about),
        "source": plugin.source,
        "resolved": plugin.resolved_ref,
        "installed_at": times.format_time(plugin.installed_at),
        "state": plugin.state,
        "supported_on_runtime": _suits(plugin.about, runtime),
    }


def _record(
    workspace: Workspace, supplied: FetchedPlugin, state: str, warnings: tuple[str, ...], now: datetime
) -> InstalledPlugin:
    staged = supplied.staged
    ledger = {
        "content_sha256": staged.content_sha256,
        "manifest_sha256": staged.manifest_sha256,
        "archive_sha256": staged.archive_sha256,
        "signed_by": list(supplied.verdict.trusted),
        "warnings": list(warnings),
    }
    return InstalledPlugin(
        workspace_id=workspace.id,
        org_id=workspace.org_id,
        name=staged.name,
        version=staged.version,
        source=staged.source,
        resolved_ref=staged.resolved,
        sha256=staged.content_sha256,
        signer=supplied.signer,
        state=state,
        about={**staged.about, "signed_by": list(supplied.verdict.key_ids)},
        ledger=ledger,
        created_at=now,
        installed_at=now,
    )


def _cautions(staged: StagedPlugin, workspace: Workspace, present: set[str]) -> list[str]:
    """What will not stop an installation but its user should know."""
    found: list[str] = []
    if not _suits(staged.about, workspace.runtime):
        made_for = ", ".join(staged.about.get("runtimes") or ()) or "none"
        found.append(f"the plugin {staged.name} is not made for {workspace.runtime}, but for: {made_for}")
    for wanted in staged.about.get("requires", ()):
        if str(wanted).partition("@")[0].strip() not in present:
            found.append(f"the plugin {staged.name} needs {wanted}, which is not installed here")
    return found


def _what(row: InstalledPlugin) -> str:
    """What the security log calls a plugin of a workspace: where it came from, its digest, its signer."""
    digest = f" sha256:{row.sha256}" if row.sha256 else ""
    signer = f" signer:{row.signer}" if row.signer else ""
    return f"workspace:{row.workspace_id}/{row.name} {row.resolved_ref or row.source}{digest}{signer}"


def _told(row: InstalledPlugin) -> dict[str, Any]:
    return {
        "name": row.name,
        "version": row.version,
        "source": row.source,
        "resolved": row.resolved_ref,
        "sha256": row.sha256,
        "state": row.state,
    }
