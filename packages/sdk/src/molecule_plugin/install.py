"""Installing and upgrading a plugin in a configs directory: verified, all or nothing, reversible.

The order is that of every install: name, staging, verification, swap, adaptor, records. No code of the
plugin runs before the verification, and an error or a kill at any later moment brings the old version back.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from molecule_plugin import file_tree, lock, resolution
from molecule_plugin.adaptor_registry import AdaptorRegistry, adopt_files, files_present
from molecule_plugin.atomic_swap import Change
from molecule_plugin.claude_layer import remove_settings
from molecule_plugin.configs import Configs
from molecule_plugin.errors import PluginError
from molecule_plugin.file_writer import InstallWriter, copy_tree
from molecule_plugin.installed_tree import carry_over, record_tree
from molecule_plugin.ledger import InstallLedger, InstallSession
from molecule_plugin.names import check_name
from molecule_plugin.plugin_manifest import read_manifest
from molecule_plugin.protocol import InstallContext, InstallResult
from molecule_plugin.revocations import Revocations
from molecule_plugin.rollback import reverse_outdated
from molecule_plugin.trust import DEFAULT_POLICY, Policy, TrustedKey
from molecule_plugin.verification import VerifiedPlugin, verify_plugin
from molecule_wire.registry import underscored
from molecule_wire.times import format_time


@dataclass(frozen=True)
class InstallTerms:
    """Where a plugin comes from and what it must prove before it is let in."""

    source: str = ""
    """`local://<name>` unless told."""
    resolved: str = ""
    archive_sha256: str = ""
    sha256: str | None = None
    signature: bytes | None = None
    policy: Policy = DEFAULT_POLICY
    trusted: tuple[TrustedKey, ...] = ()
    revocations: Revocations = Revocations()
    allow_signer_change: bool = False
    upgrade: bool = False
    frozen: bool = False


ANY = InstallTerms()


async def install_plugin_dir(
    plugin_dir: Path,
    ctx: InstallContext,
    *,
    name: str | None = None,
    terms: InstallTerms = ANY,
    registry_root: Path | None = None,
) -> InstallResult:
    """Install the plugin in `plugin_dir` into `ctx.configs_dir`, and run its adaptor for `ctx.runtime`.

    A plugin that stands in `<configs>/plugins/<name>` already is verified and installed where it is; any
    other directory is copied there. The same content again changes nothing but the record. `PluginError` says
    why a plugin was refused; everything is then as it was.
    """
    install = _Install(Path(plugin_dir), ctx, _name_of(Path(plugin_dir), name), terms, registry_root)
    with install.configs.changing() as change:
        return await install.run(change)


async def upgrade_plugin(
    plugin_dir: Path,
    ctx: InstallContext,
    *,
    name: str | None = None,
    terms: InstallTerms = ANY,
    registry_root: Path | None = None,
) -> InstallResult:
    """Install another version over the one that is there, whatever `plugins.lock` pins."""
    return await install_plugin_dir(
        plugin_dir, ctx, name=name, terms=replace(terms, upgrade=True), registry_root=registry_root
    )


def _name_of(plugin_dir: Path, name: str | None) -> str:
    if name is None:
        manifest = read_manifest(plugin_dir)
        name = manifest.name if manifest else Path(plugin_dir).resolve().name
    return check_name(name)


class _Install:
    """One install; the methods are its steps, in their order."""

    def __init__(
        self,
        plugin_dir: Path,
        ctx: InstallContext,
        name: str,
        terms: InstallTerms,
        registry_root: Path | None,
    ) -> None:
        self.configs = Configs(ctx.configs_dir)
        self.name = name
        self._plugin_dir = plugin_dir
        self._ctx = ctx
        self._terms = terms
        self._registry_root = registry_root
        self._tree = self.configs.tree(name)
        self._stands_there = plugin_dir.resolve() == self._tree.resolve()

    async def run(self, change: Change) -> InstallResult:
        previous, others = self.configs.ledger(self.name), self.configs.other_ledgers(self.name)
        staging = self._plugin_dir if self._stands_there else self._stage(change)
        entries = lock.read_lock(self.configs.lock_file)
        verified = self._verify(staging, entries.get(self.name))
        entry = self._lock_entry(verified)
        locking = lock.check(
            self.name,
            entries.get(self.name),
            entry,
            upgrade=self._terms.upgrade,
            frozen=self._terms.frozen,
        )
        ledger = self._new_ledger(verified, entry, InstallSession(change, previous, others))
        if previous is not None and self._is_same(previous, verified, entries.get(self.name)):
            result = await self._refresh(ledger, previous)
        else:
            result = await self._replace(ledger, staging)
        self._write_records(self._desk(ledger), entries | {self.name: entry} if locking else None)
        return result

    def _stage(self, change: Change) -> Path:
        file_tree.check_tree(self._plugin_dir)
        staging = change.staging(self.name)
        copy_tree(self._plugin_dir, staging)
        return staging

    def _verify(self, staging: Path, locked: lock.LockEntry | None) -> VerifiedPlugin:
        file_tree.check_tree(staging)
        return verify_plugin(
            staging,
            self.name,
            expected=self._terms.sha256,
            archive_sha256=self._terms.archive_sha256,
            signature=self._terms.signature,
            trusted=self._terms.trusted,
            policy=self._terms.policy,
            previous_signers=locked.signed_by if locked else (),
            allow_signer_change=self._terms.allow_signer_change,
            revocations=self._terms.revocations,
        )

    def _lock_entry(self, verified: VerifiedPlugin) -> lock.LockEntry:
        source = self._terms.source or f"local://{self.name}"
        return lock.LockEntry(
            verified.version,
            source,
            self._terms.resolved or source,
            verified.content_sha256,
            verified.manifest_sha256,
            self._terms.archive_sha256,
            verified.signed_by,
            format_time(datetime.now(UTC)),
        )

    def _new_ledger(
        self, verified: VerifiedPlugin, entry: lock.LockEntry, work: InstallSession
    ) -> InstallLedger:
        return InstallLedger(
            self.name,
            verified.version,
            underscored(self._ctx.runtime),
            entry.source,
            content_sha256=verified.content_sha256,
            installed_at=entry.installed_at,
            warnings=[*verified.warnings, *missing_requirements(verified, work.others)],
            work=work,
        )

    def _is_same(
        self, previous: InstallLedger, verified: VerifiedPlugin, locked: lock.LockEntry | None
    ) -> bool:
        same_manifest = locked is None or locked.manifest_sha256 == verified.manifest_sha256
        same_runtime = previous.runtime == underscored(self._ctx.runtime)
        is_there = self._stands_there or self._tree.is_dir()
        same_content = previous.content_sha256 == verified.content_sha256
        return same_content and same_manifest and same_runtime and is_there

    async def _refresh(self, ledger: InstallLedger, previous: InstallLedger) -> InstallResult:
        """Change the record alone. Tools live in the process: an adaptor that registers some runs again."""
        kept = ("adaptor", "files", "dirs", "memory", "settings", "tools", "subagents", "setup", "before")
        result = InstallResult(self.name, ledger.runtime, previous.adaptor)
        if previous.tools or previous.subagents:
            result = await self._run_adaptor(ledger, run_setup=False)
        for member in kept:
            setattr(ledger, member, getattr(previous, member))
        ledger.warnings += previous.warnings
        result.warnings = list(dict.fromkeys((*ledger.warnings, *result.warnings)))
        ledger.warnings = result.warnings
        return result

    async def _replace(self, ledger: InstallLedger, staging: Path) -> InstallResult:
        work = ledger.work
        assert work is not None
        work.change.make_directories(self.configs.ledgers)
        if not self._stands_there:
            record_tree(ledger, work.change.root, staging, self._tree)
            if work.previous is not None:
                ledger.warnings += carry_over(work.previous, work.change.root, self._tree, staging)
            work.change.replace_tree(staging, self._tree)
        writer = self._desk(ledger)
        if work.previous is not None:
            remove_settings(writer, work.previous, work.previous.settings)
        result = await self._run_adaptor(ledger, run_setup=self._ctx.run_setup)
        ledger.dirs = self._directories(ledger, work)
        if work.previous is not None:
            reverse_outdated(writer, work.previous, ledger)
        result.warnings = list(dict.fromkeys((*ledger.warnings, *writer.result.warnings, *result.warnings)))
        ledger.warnings = result.warnings
        return result

    def _desk(self, ledger: InstallLedger) -> InstallWriter:
        return InstallWriter(replace(self._ctx, ledger=ledger), InstallResult(self.name, ledger.runtime, ""))

    async def _run_adaptor(self, ledger: InstallLedger, *, run_setup: bool) -> InstallResult:
        resolution.forget(self.name)
        adaptor, source = resolution.resolve(
            self.name, ledger.runtime, self._tree, registry_root=self._registry_root
        )
        present = files_present(adaptor, self.configs.root.directory)
        registered = AdaptorRegistry()
        ctx = registered.watching(self._ctx)
        try:
            result = await adaptor.install(
                replace(ctx, plugin_root=self._tree, ledger=ledger, run_setup=run_setup)
            )
        except Exception as problem:
            raise PluginError(
                f"plugin {self.name} was not installed, its adaptor failed: {problem}"
            ) from problem
        result.source = ledger.adaptor = source
        registered.note(result, ledger)
        adopt_files(ledger, self.configs.root, result, present, self._ctx.memory_filename)
        return result

    def _directories(self, ledger: InstallLedger, work: InstallSession) -> list[str]:
        """The directories above its files that were made by it, its last version or another plugin."""
        known = set(work.change.made)
        for other in (*([work.previous] if work.previous else []), *work.others.values()):
            known |= set(other.dirs)
        places = [*ledger.files, *(block.file for block in ledger.memory), *ledger.before]
        places.append(self.configs.root.relative(self.configs.ledger_file(self.name)))
        above = {parent.as_posix() for place in places for parent in Path(place).parents}
        return sorted(known & above)

    def _write_records(self, writer: InstallWriter, entries: dict[str, lock.LockEntry] | None) -> None:
        """The last step before the change becomes final."""
        if entries is not None:
            self.configs.write_lock(writer, entries)
        writer.work.change.write(self.configs.ledger_file(self.name), writer.ledger.content())


def missing_requirements(verified: VerifiedPlugin, others: Mapping[str, InstallLedger]) -> list[str]:
    """A warning for each plugin that this one requires and that is not installed, or is too old."""
    warnings: list[str] = []
    for requirement in verified.manifest.requires:
        name, _, least = requirement.partition("@>=")
        found = others.get(name.strip())
        if found is None:
            warnings.append(f"requires plugin '{requirement}', which is not installed")
        elif _numbers(found.version) < _numbers(least):
            warnings.append(f"requires plugin '{requirement}', but version {found.version} is installed")
    return warnings


def _numbers(version: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", version.partition("-")[0])]
