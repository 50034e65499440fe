"""Getting a plugin for an organisation: first is asked what it allows, pinned and trusts."""

from dataclasses import dataclass, replace
from typing import Any

from molecule_platform.domain import plugins
from molecule_platform.domain.errors import ApiError
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.plugin_sources import PluginCache, Resolved, SourceSpec, StagedPlugin
from molecule_platform.ports.plugins import PinnedSource, PublisherKey
from molecule_platform.ports.storage import Storage, Transaction
from molecule_plugin import lock, signatures, trust
from molecule_plugin.errors import LockMismatchError, PluginError
from molecule_plugin.keys import parse_public_key
from molecule_plugin.revocations import Revocations, parse_revocations

_TRIES = 3
MAX_PINS = 10_000


@dataclass(frozen=True)
class PluginPolicy:
    """What the operator decided: what a source without a commit stands for, and who must sign."""

    unpinned: str = "lock"
    signatures: trust.Policy = trust.DEFAULT_POLICY


@dataclass(frozen=True)
class OrgPluginPolicy:
    """What an organisation, and the platform for all of them, say about plugins."""

    allowlist: list[str]
    keys: tuple[trust.TrustedKey, ...]
    revoked: Revocations


@dataclass(frozen=True)
class FetchedPlugin:
    """A plugin that the organisation may use, who signed it, and what to pin its source to."""

    staged: StagedPlugin
    verdict: trust.SignatureCheck
    pin: PinnedSource | None

    @property
    def signer(self) -> str:
        """The trusted key that signed it, if one did."""
        return self.verdict.trusted[0] if self.verdict.trusted else ""


class PluginSupply:
    """Brings plugins from their sources to whoever may have them."""

    def __init__(self, storage: Storage, clock: Clock, stock: PluginCache, policy: PluginPolicy) -> None:
        self._storage = storage
        self._clock = clock
        self._stock = stock
        self._policy = policy

    async def obtain(
        self, org_id: str, spec: SourceSpec, name: str | None = None, *, upgrade: bool = False
    ) -> FetchedPlugin:
        """Fetch and verify; `name` is what the plugin must be called, None when that is not known before."""
        rules, pinned = await self._storage.read(lambda tx: (rules_of(tx, org_id), _pinned(tx, org_id, spec)))
        if not plugins.may_be_allowed(rules.allowlist, spec.text):
            raise plugins.NotAllowed(spec.name_hint, spec.text)
        if spec.unpinned:
            plugins.check_pin(self._policy.unpinned, spec.text, None)
        resolved = await self._resolved(spec, None if upgrade else pinned)
        staged = await self._stock.staged(resolved)
        _check_called(staged.name, name or (spec.name_hint if resolved.kind == "folder" else staged.name))
        if not plugins.is_allowed(rules.allowlist, staged.name, spec.text):
            raise plugins.NotAllowed(staged.name, spec.text)
        verdict = verified(staged, rules)
        pin = self._pin(org_id, resolved, staged, verdict)
        if pin is not None and pinned is not None and not upgrade:
            _hold(pinned, pin)
        return FetchedPlugin(staged, verdict, pin)

    async def _resolved(self, spec: SourceSpec, pinned: PinnedSource | None) -> Resolved:
        """The pinned tree, if there is one and pins are to hold; else what the source has now."""
        if pinned is None or self._policy.unpinned == "float":
            found = await self._stock.resolve(spec)
        else:
            exact = await self._stock.resolve(self._stock.parse(pinned.resolved))
            found = replace(exact, spec=spec, kind=pinned.kind)
        plugins.check_pin(self._policy.unpinned, spec.text, found.kind)
        return found

    def _pin(
        self, org_id: str, resolved: Resolved, staged: StagedPlugin, verdict: trust.SignatureCheck
    ) -> PinnedSource | None:
        """What to remember of a source that could give something else tomorrow."""
        floats = self._policy.unpinned == "float" and resolved.kind != "commit"
        if resolved.kind == "folder" or floats:
            return None
        now = self._clock.now()
        return PinnedSource(
            org_id=org_id,
            source=resolved.spec.text,
            resolved=resolved.pinned,
            kind=resolved.kind,
            name=staged.name,
            version=staged.version,
            content_sha256=staged.content_sha256,
            manifest_sha256=staged.manifest_sha256,
            archive_sha256=staged.archive_sha256,
            signed_by=list(verdict.trusted),
            created_at=now,
            updated_at=now,
        )

    async def for_download(self, org_id: str, name: str, source: str | None) -> FetchedPlugin:
        """A plugin to be sent to an agent, which then pins its source for everybody."""
        spec = self._stock.parse(plugins.named(name) if source is None else source)
        for _ in range(_TRIES):
            supplied = await self.obtain(org_id, spec, plugins.named(name))
            self.decide(supplied)
            pin = supplied.pin
            if pin is None or await self._storage.write(lambda tx, pin=pin: keep_pin(tx, pin)):
                return supplied
        raise ApiError("conflict", f"{spec.text} is being upgraded: try again")

    def decide(
        self, supplied: FetchedPlugin, previous: tuple[str, ...] = (), allow_signer_change: bool = False
    ) -> tuple[str, ...]:
        """The warnings of a plugin whose signers suffice; a refusal of one whose signers do not."""
        decision = trust.decide(
            supplied.staged.name,
            supplied.verdict,
            policy=self._policy.signatures,
            previous=previous,
            allow_signer_change=allow_signer_change,
        )
        if decision.refusal:
            raise ApiError("plugin-signature-required", decision.refusal)
        return decision.warnings


def rules_of(tx: Transaction, org_id: str) -> OrgPluginPolicy:
    """What counts for an organisation now."""
    revoked = tx.plugins.revocations()
    listed = (
        Revocations() if revoked is None else parse_revocations({**revoked.body, "version": revoked.version})
    )
    keys = tuple(trusted_key(key) for key in tx.plugins.keys(org_id))
    return OrgPluginPolicy(tx.plugins.allowlist(org_id), keys, listed)


def trusted_key(key: PublisherKey) -> trust.TrustedKey:
    """A key of the table, ready to check signatures with."""
    return trust.TrustedKey(parse_public_key(key.key), tuple(key.allow), key.name)


def may_have(rules: OrgPluginPolicy, row: dict[str, Any]) -> bool:
    """Whether an organisation may have one of the platform's own plugins, by its row of the catalogue."""
    revoked = rules.revoked.find(row["name"], row["version"], row["sha256"], row["signed_by"])
    return revoked is None and plugins.is_allowed(rules.allowlist, row["name"], f"local://{row['name']}")


def signers(staged: StagedPlugin, rules: OrgPluginPolicy) -> trust.SignatureCheck:
    """Who signed a plugin; `PluginSignatureError` when the signature is wrong."""
    if staged.signature is None:
        return trust.UNSIGNED
    digests = staged.content_sha256, staged.manifest_sha256
    return signatures.verify_claims(
        staged.signature, digests, trusted=rules.keys, name=staged.name, version=staged.version
    )


def verified(staged: StagedPlugin, rules: OrgPluginPolicy) -> trust.SignatureCheck:
    """Who signed a plugin; refuses a wrong signature and whatever was revoked."""
    try:
        verdict = signers(staged, rules)
        rules.revoked.check(staged.name, staged.version, staged.content_sha256, verdict.key_ids)
    except PluginError as problem:
        raise plugins.refusal_of(problem) from problem
    return verdict


def keep_pin(tx: Transaction, pin: PinnedSource, *, upgrade: bool = False) -> bool:
    """Pin a source; False when somebody else has pinned it to another tree meanwhile."""
    before = tx.plugins.pinned(pin.org_id, pin.source)
    if before is not None and not upgrade and before.resolved != pin.resolved:
        return False
    if before is None and tx.plugins.pin_count(pin.org_id) >= MAX_PINS:
        raise ApiError("conflict", f"the organisation has pinned {MAX_PINS} sources, which is the most")
    if before is None or _entry(before) != _entry(pin):
        tx.plugins.pin(pin)
    return True


def _pinned(tx: Transaction, org_id: str, spec: SourceSpec) -> PinnedSource | None:
    return tx.plugins.pinned(org_id, spec.text)


def _hold(pinned: PinnedSource, found: PinnedSource) -> None:
    try:
        lock.check(pinned.name, _entry(pinned), _entry(found))
    except LockMismatchError as problem:
        raise plugins.pin_mismatch(pinned.source, problem) from problem


def _entry(pin: PinnedSource) -> lock.LockEntry:
    # How an archive is compressed may change with our own libraries; what is in it may not.
    return lock.LockEntry(pin.version, pin.source, pin.resolved, pin.content_sha256, pin.manifest_sha256)


def _check_called(found: str, wanted: str) -> None:
    if found != wanted:
        sentence = f"the source holds the plugin {found}, not {wanted[:128]}"
        raise ApiError(
            "invalid-request",
            sentence,
            field="source",
            detail=sentence,
            resolved_name=found,
            requested_name=wanted[:128],
        )
