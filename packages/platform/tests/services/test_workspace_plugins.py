"""Plugins of workspaces over a real store and real folders: hosted agents, warnings, races, the log."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.plugin_sources import Resolved, SourceSpec, StagedPlugin
from molecule_platform.ports.plugins import PublisherKey, RevokedList
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.plugins import plugin_supply, workspace_plugins
from molecule_platform.services.plugins.plugin_supply import PluginPolicy, PluginSupply
from molecule_platform.services.plugins.workspace_plugins import (
    InstallRequest,
    InstallResult,
    WorkspacePlugins,
)
from molecule_platform.services.support.audit_log import AuditActor
from molecule_platform.sources.cache import PluginTreeCache
from molecule_platform.sources.local import LocalSource
from molecule_platform.sources.workspace_plugins import WorkspacePluginFolders
from molecule_plugin.keys import generate_key
from molecule_plugin.limits import LIMITS, Limits
from molecule_plugin.signatures import sign_plugin

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

BY = AuditActor("user:ann", "request-1")


class MovingSource:
    """A source whose one plugin is at the commit that a test says."""

    scheme = "moving"

    def __init__(self) -> None:
        self.commit = "1"
        self.resolved = asyncio.Event()
        self.resolved.set()

    def parse(self, text: str) -> SourceSpec:
        """`moving://x` follows; `moving://x#n` stays."""
        return SourceSpec(self.scheme, text, "x", "#" not in text)

    async def resolve(self, spec: SourceSpec) -> Resolved:
        """What it is at now; a test may hold the answer back."""
        place, _, commit = spec.text.partition("#")
        found, kind = (commit, "commit") if commit else (self.commit, "branch")
        await self.resolved.wait()
        return Resolved(spec, f"{place}#{found}", "x", kind, found)

    async def fetch(self, resolved: Resolved, dest: Path, limits: Limits, deadline: float) -> None:
        """A plugin that tells its commit."""
        (dest / "plugin.yaml").write_text(f"name: x\nversion: {resolved.mark}.0.0\n")


class World:
    """The services of plugins, a folder of plugins and a moving source."""

    def __init__(self, rig: Rig, tmp_path: Path) -> None:
        self.rig, self.folder, self.configs = rig, tmp_path / "plugins", tmp_path / "configs"
        self.moving = MovingSource()
        self.stock = self.new_stock(tmp_path / "stock")
        self.plugins = self.new(self.stock)

    def new_stock(self, folder: Path) -> PluginTreeCache:
        local = LocalSource(self.folder, LIMITS)
        return PluginTreeCache(folder, local, (self.moving,), LIMITS, 20.0)

    def new(self, stock: PluginTreeCache, policy: PluginPolicy | None = None) -> WorkspacePlugins:
        rig = self.rig
        self.supply = PluginSupply(rig.storage, rig.clock, stock, policy or PluginPolicy())
        homes = WorkspacePluginFolders(lambda workspace_id: str(self.configs / workspace_id))
        return WorkspacePlugins(
            rig.storage, rig.clock, stock, self.supply, homes, rig.lifecycle_services.restarts
        )

    def put(self, name: str, files: Mapping[str, bytes] | None = None, **said: str) -> Path:
        place = self.folder / name
        place.mkdir(parents=True, exist_ok=True)
        for path, content in (files or {}).items():
            (place / path).write_bytes(content)
        lines = {"name": name, "version": "1.0.0", **said}
        (place / "plugin.yaml").write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
        return place

    async def install(self, workspace: Workspace, source: str, **wish: Any) -> InstallResult:
        return await self.plugins.install(BY, workspace, InstallRequest(source, **wish))

    async def hosted(self) -> Workspace:
        """A workspace whose agent we run."""
        made = await self.rig.created("Hosted", runtime="llm")
        return await self.rig.changed(made.workspace, status="online", provisioning_since=None)

    async def external(self) -> Workspace:
        return (await self.rig.created("Remote")).workspace


@pytest.fixture
def world(rig: Rig, tmp_path: Path) -> World:
    return World(rig, tmp_path)


async def test_a_hosted_agent_gets_the_files_and_starts_again(world: World) -> None:
    world.put("x", {"a.txt": b"one", "old.txt": b"old"})
    hosted = await world.hosted()
    done = await world.install(hosted, "x")
    home = world.configs / hosted.id / "plugins"
    assert done.row.state == "installed"
    assert (home / "x" / "a.txt").read_bytes() == b"one"
    assert (await world.rig.workspace(hosted.id)).status == "provisioning"
    (world.put("x", {"a.txt": b"two"}) / "old.txt").unlink()
    await world.install(hosted, "x")
    assert sorted(path.name for path in (home / "x").iterdir()) == ["a.txt", "plugin.yaml"]
    await world.plugins.uninstall(BY, hosted, "x")
    assert not (home / "x").exists()
    assert await world.plugins.installed(hosted) == []


async def test_a_folder_that_cannot_be_written_leaves_nothing_recorded(
    world: World, refuses: Refuses
) -> None:
    world.put("x")
    hosted = await world.hosted()
    world.configs.mkdir()
    (world.configs / hosted.id).write_text("a file where the folder should be")
    await refuses(world.install(hosted, "x"), "conflict")
    assert await world.plugins.installed(hosted) == []


async def test_without_a_provisioner_a_plugin_is_only_written_down(world: World) -> None:
    world.put("x")
    hosted = await world.hosted()
    rig = world.rig
    alone = WorkspacePlugins(
        rig.storage, rig.clock, world.stock, world.supply, None, rig.lifecycle_services.restarts
    )
    assert (await alone.install(BY, hosted, InstallRequest("x"))).row.state == "recorded"


async def test_what_does_not_fit_or_is_missing_is_a_warning(world: World) -> None:
    world.put("x", runtimes="[claude_code]", requires="[base, 'other@>=1.2']")
    hosted = await world.hosted()
    warnings = (await world.install(hosted, "x")).warnings
    assert len(warnings) == 3
    assert "claude_code" in warnings[0]
    world.put("base")
    world.put("other", version="2.0.0")
    await world.install(hosted, "base")
    await world.install(hosted, "other")
    assert len((await world.install(hosted, "x")).warnings) == 1


async def test_the_security_log_tells_who_installed_what_from_where(world: World) -> None:
    world.put("x", {"a.txt": b"one"})
    remote = await world.external()
    done = await world.install(remote, "x")
    await world.plugins.uninstall(BY, remote, "x")
    deeds = await world.rig.storage.read(lambda tx: tx.audit.newest(remote.org_id, 2))
    assert [(deed.action, deed.principal) for deed in deeds] == [
        ("plugin.uninstall", "user:ann"),
        ("plugin.install", "user:ann"),
    ]
    assert deeds[1].object == f"workspace:{remote.id}/x local://x sha256:{done.row.sha256}"


async def test_the_same_content_again_refreshes_the_record_and_tells_nobody(world: World) -> None:
    world.put("x")
    remote = await world.external()
    first = (await world.install(remote, "x")).row
    before = await world.rig.events()
    world.rig.clock.advance(60)
    second = (await world.install(remote, "x")).row
    assert second.installed_at > first.installed_at
    assert await world.rig.events() == before


async def test_the_same_plugin_is_not_installed_twice_at_once(world: World, refuses: Refuses) -> None:
    remote = await world.external()
    world.moving.resolved.clear()
    first = asyncio.ensure_future(world.install(remote, "moving://x"))
    await asyncio.sleep(0)
    await refuses(world.install(remote, "moving://x"), "conflict")
    world.moving.resolved.set()
    assert (await first).row.version == "1.0.0"
    assert (await world.install(remote, "moving://x")).row.version == "1.0.0"


async def test_a_plugin_of_the_same_name_is_not_installed_from_two_sources_at_once(
    world: World, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("x", {"a.txt": b"local"})
    hosted, placed, go_on = await world.hosted(), asyncio.Event(), asyncio.Event()
    place = WorkspacePluginFolders.place

    async def slowly(homes: WorkspacePluginFolders, workspace_id: str, staged: StagedPlugin) -> None:
        await place(homes, workspace_id, staged)
        placed.set()
        await go_on.wait()

    monkeypatch.setattr(WorkspacePluginFolders, "place", slowly)
    first = asyncio.create_task(world.install(hosted, "x"))
    await placed.wait()
    await refuses(world.install(hosted, "moving://x"), "conflict")
    await refuses(world.plugins.uninstall(BY, hosted, "x"), "not-found")
    go_on.set()
    await first
    assert (world.configs / hosted.id / "plugins/x/a.txt").read_bytes() == b"local"
    assert [row["source"] for row in await world.plugins.installed(hosted)] == ["local://x"]


async def test_a_forbidden_report_does_not_make_an_unsigned_plugin_welcome(
    world: World, refuses: Refuses
) -> None:
    key, external = generate_key(), await world.external()
    place = world.put("x")
    sign_plugin(place, [key])

    def rule(tx: Transaction) -> None:
        trusted = PublisherKey(key.public.key_id, key.public.text, "ann")
        tx.plugins.put_keys(external.org_id, [trusted], world.rig.clock.now())
        tx.plugins.put_allowlist(external.org_id, ["local://x"], "user:ann", world.rig.clock.now())

    await world.rig.storage.write(rule)
    await world.install(external, "x", reported=True)
    (place / "plugin.sig").unlink()
    await refuses(world.install(external, "x", reported=True), "plugin-signature-required")
    await refuses(world.install(external, "moving://x", reported=True), "plugin-not-allowed")
    assert [row["state"] for row in await world.plugins.installed(external)] == ["blocked"]
    await refuses(world.install(external, "x", reported=True), "plugin-signature-required")


async def test_two_that_resolve_a_branch_at_once_get_the_same_commit(world: World, tmp_path: Path) -> None:
    """The first has resolved and not yet pinned when the branch moves and a second one is quicker."""
    remote = await world.external()
    slow, quick = (
        world.supply,
        PluginSupply(
            world.rig.storage, world.rig.clock, world.new_stock(tmp_path / "another"), PluginPolicy()
        ),
    )
    spec = world.stock.parse("moving://x")
    early = await slow.obtain(remote.org_id, spec)
    world.moving.commit = "2"
    assert (await quick.for_download(remote.org_id, "x", "moving://x")).staged.version == "2.0.0"
    assert early.staged.version == "1.0.0"
    assert (await slow.for_download(remote.org_id, "x", "moving://x")).staged.version == "2.0.0"
    world.moving.commit = "3"
    assert (await slow.for_download(remote.org_id, "x", "moving://x")).staged.resolved == "moving://x#2"


async def test_an_upgrade_between_reading_and_writing_is_not_undone(
    world: World, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = await world.external()
    obtain = world.supply.obtain

    async def overtaken(*arguments: Any, **options: Any) -> Any:
        supplied = await obtain(*arguments, **options)
        pin = supplied.pin
        assert pin is not None
        await world.rig.storage.write(lambda tx: tx.plugins.pin(replace(pin, resolved="moving://x#9")))
        return supplied

    monkeypatch.setattr(world.supply, "obtain", overtaken)
    await refuses(world.install(remote, "moving://x"), "conflict")
    assert await world.plugins.installed(remote) == []


async def test_a_pin_of_a_branch_does_not_count_where_branches_are_denied(
    world: World, refuses: Refuses
) -> None:
    remote = await world.external()
    await world.install(remote, "moving://x")
    world.plugins = world.new(world.stock, PluginPolicy("deny"))
    await refuses(world.install(remote, "moving://x"), "plugin-source-unpinned")
    assert (await world.install(remote, "moving://x#1")).row.version == "1.0.0"


async def test_a_stranger_s_error_in_a_source_is_not_swallowed(world: World) -> None:
    remote = await world.external()

    async def broken(resolved: Resolved, dest: Path, limits: Limits, deadline: float) -> None:
        raise RuntimeError("a fault of the source")

    world.moving.fetch = broken  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        await world.install(remote, "moving://x")
    assert (remote.id, "moving://x") not in world.plugins._busy  # pyright: ignore[reportPrivateUsage]


async def test_a_name_that_is_not_allowed_is_found_out_once_the_plugin_is_read(
    world: World, refuses: Refuses
) -> None:
    remote = await world.external()
    now = world.rig.clock.now()
    await world.rig.storage.write(lambda tx: tx.plugins.put_allowlist(remote.org_id, ["y"], "user:ann", now))
    await refuses(world.install(remote, "moving://x"), "plugin-not-allowed")
    assert await world.plugins.installed(remote) == []


async def test_a_workspace_and_an_organisation_have_only_so_many(
    world: World, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = await world.external()
    world.put("one")
    world.put("two")
    monkeypatch.setattr(workspace_plugins, "MAX_PLUGINS", 1)
    await world.install(remote, "one")
    await refuses(world.install(remote, "two"), "conflict")
    await world.install(remote, "one")
    monkeypatch.setattr(workspace_plugins, "MAX_PLUGINS", 10)
    monkeypatch.setattr(plugin_supply, "MAX_PINS", 1)
    await world.install(remote, "moving://x")
    await refuses(world.install(remote, "moving://x#2"), "conflict")


async def test_an_agent_that_reports_the_same_forbidden_plugin_again_is_told_of_once(
    world: World, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = await world.external()
    now = world.rig.clock.now()
    await world.rig.storage.write(lambda tx: tx.plugins.put_allowlist(remote.org_id, ["y"], "user:ann", now))
    world.put("bad")
    for _ in range(2):
        await refuses(world.install(remote, "bad", reported=True), "plugin-not-allowed")
    assert (await world.rig.events()).count("PLUGIN_BLOCKED") == 1
    monkeypatch.setattr(workspace_plugins, "MAX_PLUGINS", 1)
    world.put("worse")
    await refuses(world.install(remote, "worse", reported=True), "plugin-not-allowed")
    assert [row["name"] for row in await world.plugins.installed(remote)] == ["bad"]


async def test_what_was_revoked_or_is_not_allowed_is_not_offered(world: World) -> None:
    remote = await world.external()
    for name in ("good", "bad", "revoked"):
        world.put(name)
    now = world.rig.clock.now()
    body = {"plugins": [{"name": "revoked", "versions": ["*"], "reason": "it leaks"}]}

    def work(tx: Transaction) -> None:
        tx.plugins.put_allowlist(remote.org_id, ["good", "revoked"], "user:ann", now)
        tx.plugins.put_revocations(RevokedList(1, now, "user:ann", body))

    await world.rig.storage.write(work)
    assert [row["name"] for row in await world.plugins.available(remote)] == ["good"]
    assert len(await world.plugins.catalogue(remote.org_id)) == 3
