"""`install_plugin`: fetch, unpack and verify in staging, swap, set up, record, report."""

import logging
import os
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from molecule_agent.errors import ConfigurationError
from molecule_agent.plugin_policy import PluginPolicy
from molecule_agent.plugins import download, records
from molecule_agent.plugins.records import PluginHome
from molecule_plugin import archive as archives
from molecule_plugin import atomic_swap, lock, names, setup_script, trust
from molecule_plugin.digest import SIGNATURE_FILE, check_digest
from molecule_plugin.errors import LockMismatchError, SHA256MismatchError
from molecule_plugin.file_writer import keep_beside, new_paths, sha256_of
from molecule_plugin.ledger import InstallLedger, SetupRecord
from molecule_plugin.lock import LockEntry
from molecule_plugin.revocations import Revocations
from molecule_plugin.safe_paths import is_plain_file, write_atomically
from molecule_plugin.verification import VerifiedPlugin, verify_plugin
from molecule_wire import times
from molecule_wire.calls import plugins, workspaces

if TYPE_CHECKING:
    from molecule_agent.client import RemoteAgentClient

LOCK_WAIT = 30.0
RUNTIME = "external"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PluginInstallRequest:
    """What to install, and how strictly."""

    name: str
    source: str | None = None
    run_setup: bool = True
    sha256: str | None = None
    upgrade: bool = False
    frozen: bool = False
    allow_signer_change: bool = False
    setup_env: Mapping[str, str] | Collection[str] = ()
    at_start: bool = False
    """A program that starts goes on with the pinned version of a local plugin whose source has changed."""

    @property
    def full_source(self) -> str:
        """The source as the lock and the platform name it."""
        return self.source or f"local://{self.name}"


def install(client: "RemoteAgentClient", install_request: PluginInstallRequest, *, report: bool) -> Path:
    """Install a plugin and return its directory; the version that was there stays until all is verified."""
    names.check_name(install_request.name)
    if install_request.sha256 is not None:
        check_digest(install_request.sha256)
    request = plugins.download(client.workspace_id, install_request.name, install_request.source)
    with tempfile.TemporaryFile() as archive:
        fetched = download.fetch(client, request, archive)
        installer = Installer(client, install_request, fetched, InstallRequirements.of(client, fetched))
        with client._store.locked(LOCK_WAIT):
            is_installed = installer.install(archive)
    if is_installed:
        client._installed_plugins.add(install_request.name)
        if report:
            _report(client, install_request.full_source)
    return client.plugins_dir / install_request.name


@dataclass(frozen=True)
class InstallRequirements:
    """What a plugin must satisfy here and now."""

    policy: trust.Policy
    trusted: tuple[trust.TrustedKey, ...]
    revocations: Revocations
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, client: "RemoteAgentClient", fetched: download.ArchiveInfo) -> "InstallRequirements":
        """The demands of a program and its user, with the platform's list of revocations."""
        policy, trusted = policy_of(client._plugin_policy)
        return cls(policy, trusted, *download.revoked(client, policy, ask=fetched.genuine))


class Installer:
    """One install, from an archive that was fetched; the caller holds the lock of the directory."""

    def __init__(
        self,
        client: "RemoteAgentClient",
        install_request: PluginInstallRequest,
        fetched: download.ArchiveInfo,
        requirements: InstallRequirements,
    ) -> None:
        self._client = client
        self._request = install_request
        self._fetched = fetched
        self._requirements = requirements
        self._home = PluginHome(client.token_file.parent)
        self._target = self._home.tree(install_request.name)

    def install(self, archive: BinaryIO) -> bool:
        """Take the archive through staging to its place, or leave everything as it was.

        False when the program goes on with the pinned version instead.
        """
        with atomic_swap.change(self._home.directory, self._home.trees) as change:
            staging = change.staging(self._request.name)
            archives.safe_extract(archive, staging)
            locked = self._home.locked()
            verified = self._verify(staging, locked.get(self._request.name))
            entry = self._entry(verified)
            pinned = locked.get(self._request.name)
            try:
                is_new = self._check_lock(pinned, entry)
            except LockMismatchError:
                if pinned is None or not self._can_go_on(pinned):
                    raise
                self._tell_of_update(pinned, entry)
                return False
            self._keep_signature(staging)
            ledger = self._place(change, staging, verified)
            if is_new:
                change.write(self._home.lock_file, lock.lock_content(locked | {self._request.name: entry}))
            change.write(self._home.ledger_file(self._request.name), ledger.content())
        return True

    def _can_go_on(self, pinned: LockEntry) -> bool:
        """Whether the pinned version may stay: it is whole, not revoked, and nobody asked for another."""
        install_request = self._request
        if (
            not install_request.at_start
            or install_request.frozen
            or install_request.sha256
            or not pinned.source.startswith("local://")
        ):
            return False
        ledger = self._home.ledgers().get(install_request.name)
        if ledger is None or ledger.content_sha256 != pinned.content_sha256:
            return False
        self._requirements.revocations.check(
            install_request.name, pinned.version, pinned.content_sha256, pinned.signed_by
        )
        return not records.differences(self._home, ledger).missing

    def _tell_of_update(self, pinned: LockEntry, found: LockEntry) -> None:
        name, reported = self._request.name, self._client._told_plugin_updates
        update = f"{name} {found.content_sha256} {found.manifest_sha256}"
        if update in reported:
            return
        reported.add(update)
        log.warning(
            "plugin %s: %s has changed since it was pinned (%s); going on with the pinned version."
            " To take the new one: python -m molecule_agent install %s --upgrade,"
            " or install_plugin(%r, upgrade=True)",
            name,
            found.source,
            _what_changed(pinned, found),
            name,
            name,
        )

    def _check_lock(self, pinned: LockEntry | None, found: LockEntry) -> bool:
        install_request = self._request
        return lock.check(
            install_request.name,
            pinned,
            found,
            upgrade=install_request.upgrade,
            frozen=install_request.frozen,
        )

    def _verify(self, staging: Path, locked: LockEntry | None) -> VerifiedPlugin:
        requirements = self._requirements
        verified = verify_plugin(
            staging,
            self._request.name,
            expected=self._request.sha256,
            archive_sha256=self._fetched.archive_sha256,
            signature=self._fetched.signature,
            trusted=requirements.trusted,
            policy=requirements.policy,
            previous_signers=locked.signed_by if locked else (),
            allow_signer_change=self._request.allow_signer_change,
            revocations=requirements.revocations,
        )
        promised = self._fetched.delivered.content_sha256
        if promised not in ("", verified.content_sha256):
            raise SHA256MismatchError(
                f"plugin {self._request.name} sha256 mismatch — expected {promised}, as the platform says,"
                f" found {verified.content_sha256}; setup.sh was NOT run.",
                promised,
                verified.content_sha256,
            )
        for warning in (*requirements.warnings, *verified.warnings):
            log.warning("plugin %s: %s", self._request.name, warning)
        return verified

    def _entry(self, verified: VerifiedPlugin) -> LockEntry:
        return LockEntry(
            version=verified.version,
            source=self._request.full_source,
            resolved=self._fetched.delivered.source or self._request.full_source,
            content_sha256=verified.content_sha256,
            manifest_sha256=verified.manifest_sha256,
            archive_sha256=self._fetched.archive_sha256,
            signed_by=verified.signed_by,
            installed_at=self._now(),
        )

    def _keep_signature(self, staging: Path) -> None:
        if self._fetched.signature is not None:
            write_atomically(staging / SIGNATURE_FILE, self._fetched.signature, 0o644)

    def _place(self, change: atomic_swap.Change, staging: Path, verified: VerifiedPlugin) -> InstallLedger:
        ledger = self._ledger(staging, verified)
        previous = self._home.ledgers().get(self._request.name)
        if previous is not None and self._is_here(previous, ledger):
            ledger.setup = previous.setup
            return ledger
        if previous is not None:
            self._keep_edits(staging, previous)
        change.replace_tree(staging, self._target)
        ledger.setup = self._set_up(verified, ledger)
        return ledger

    def _is_here(self, previous: InstallLedger, ledger: InstallLedger) -> bool:
        """Whether the very same files are here, and set up: then nothing is moved and nothing is run."""
        has_setup = self._home.root.relative(self._target / setup_script.SETUP_FILE) in ledger.files
        is_set_up = not (has_setup and self._request.run_setup) or previous.setup.exit_code == 0
        is_same = previous.files == ledger.files
        return is_same and is_set_up and records.differences(self._home, previous).intact

    def _keep_edits(self, staging: Path, previous: InstallLedger) -> None:
        """Put files that the user edited beside the new ones."""
        for path in records.differences(self._home, previous).changed:
            edited = self._home.root.path(path)
            if not is_plain_file(edited):
                continue
            beside = keep_beside(edited, staging, edited.relative_to(self._target))
            log.warning("%s was edited; your version is kept as %s", path, beside.name)

    def _ledger(self, staging: Path, verified: VerifiedPlugin) -> InstallLedger:
        ledger = InstallLedger(
            name=self._request.name,
            version=verified.version,
            runtime=RUNTIME,
            source=self._request.full_source,
            content_sha256=verified.content_sha256,
            installed_at=self._now(),
            warnings=list(verified.warnings),
        )
        for path, file, mode in records.own_files(self._home, staging, self._request.name):
            ledger.add_file(path, sha256_of(file), mode & 0o777)
        return ledger

    def _set_up(self, verified: VerifiedPlugin, ledger: InstallLedger) -> SetupRecord:
        if not self._request.run_setup:
            return SetupRecord()
        before = set(self._target.rglob("*"))
        outcome = setup_script.run_setup(
            setup_script.Setup(
                self._request.name,
                self._target,
                self._home.directory,
                self._client.workspace_id,
                declared=verified.manifest.permissions.env,
                approved=self._request.setup_env,
            )
        )
        if outcome.warning:
            log.warning("plugin %s: %s", self._request.name, outcome.warning)
            ledger.warnings.append(outcome.warning)
        created = records.recordable(self._home, new_paths(self._target, before))
        return SetupRecord(outcome.ran, outcome.exit_code, outcome.seconds, created)

    def _now(self) -> str:
        return times.format_time(datetime.fromtimestamp(self._client._clock.time(), UTC))


def policy_of(plugin_policy: PluginPolicy | None) -> tuple[trust.Policy, tuple[trust.TrustedKey, ...]]:
    """How signatures count for this program, and whose: what it says itself, then what the user has set."""
    chosen = plugin_policy or PluginPolicy()
    try:
        policy = trust.parse_policy(chosen.signatures or os.environ.get(trust.POLICY_VARIABLE))
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    of_the_user = trust.read_trusted_keys(Path.home() / ".molecule" / "trusted_keys")
    return policy, (*trust.parse_trusted_keys("\n".join(chosen.trusted_keys)), *of_the_user)


def _what_changed(pinned: LockEntry, found: LockEntry) -> str:
    """What an update changes, in words."""
    if pinned.version != found.version:
        return f"version {pinned.version} is pinned, {found.version} is there now"
    has_same_files = pinned.content_sha256 == found.content_sha256
    return f"still version {found.version}, with another {'plugin.yaml' if has_same_files else 'content'}"


def _report(client: "RemoteAgentClient", source: str) -> None:
    try:
        client._perform(plugins.report(client.workspace_id, source), workspaces.read_nothing)
    except Exception as error:  # noqa: BLE001 - the plugin is installed; the platform may learn it later
        log.warning("the platform could not be told of %s: %s", source, error)
