"""What organisations allow and trust, and what the platform's administrator has revoked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from molecule_platform.domain import plugins
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import check_text, invalid
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.people import Org
from molecule_platform.ports.plugins import PublisherKey, RevokedList
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.identity import organisations
from molecule_platform.services.support import audit_log
from molecule_platform.services.support.audit_log import AuditActor
from molecule_plugin.errors import PluginError
from molecule_plugin.keys import parse_public_key
from molecule_plugin.revocations import Revocations, parse_revocations
from molecule_wire import JSON, ids, times

MAX_NAME_LENGTH = 200
MAX_VERSION = 2**53 - 1


@dataclass(frozen=True)
class AllowList:
    """An organisation's allowlist."""

    org_id: str
    entries: list[str]


class PluginRules:
    """Keeps the allowlists and keys of organisations, and the list of what was revoked."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def allowlist(self, by: Principal, named: str) -> AllowList:
        """What an organisation allows."""

        def work(tx: Transaction) -> AllowList:
            org = _org(tx, by, named)
            return AllowList(org.id, tx.plugins.allowlist(org.id))

        return await self._storage.read(work)

    async def put_allowlist(
        self, by: Principal, request_id: str, named: str, entries: Sequence[str]
    ) -> AllowList:
        """Write the list anew; an empty one allows everything."""
        checked, now = plugins.check_entries(entries), self._clock.now()

        def work(tx: Transaction) -> AllowList:
            org = _org(tx, by, named)
            tx.plugins.put_allowlist(org.id, checked, by.text, now)
            audit_log.note(
                tx, org.id, AuditActor(by.text, request_id), "plugin.allowlist", f"org:{org.id}", now
            )
            return AllowList(org.id, checked)

        return await self._storage.write(work)

    async def keys(self, by: Principal, named: str) -> list[PublisherKey]:
        """The keys that an organisation trusts."""
        return await self._storage.read(lambda tx: tx.plugins.keys(_org(tx, by, named).id))

    async def put_keys(
        self, by: Principal, request_id: str, named: str, given: Sequence[tuple[str, str, list[str]]]
    ) -> list[PublisherKey]:
        """Write the keys anew, each as its text, a name for people and the plugins it may sign."""
        checked, now = _checked_keys(given), self._clock.now()

        def work(tx: Transaction) -> list[PublisherKey]:
            org = _org(tx, by, named)
            tx.plugins.put_keys(org.id, checked, now)
            audit_log.note(tx, org.id, AuditActor(by.text, request_id), "plugin.keys", f"org:{org.id}", now)
            return checked

        return await self._storage.write(work)

    async def revocations(self) -> dict[str, Any]:
        """The list as it is."""
        found = await self._storage.glance(lambda tx: tx.plugins.revocations())
        return Revocations().to_json() if found is None else {**found.body, "version": found.version}

    async def revoke(self, by: Principal, request_id: str, given: dict[str, Any]) -> dict[str, Any]:
        """Write the list anew, as the version that is given or the next one; it never goes back."""
        now, wanted = self._clock.now(), given.get("version")

        def work(tx: Transaction) -> dict[str, Any]:
            newest = tx.plugins.revocations()
            before = 0 if newest is None else newest.version
            version = before + 1 if wanted is None else wanted
            if version <= before:
                raise _goes_back(before)
            if version > MAX_VERSION:
                raise invalid("version", f"version is at most {MAX_VERSION}")
            body = _checked_list({**given, "version": version, "updated_at": times.format_time(now)})
            tx.plugins.put_revocations(RevokedList(version, now, by.text, body))
            actor = AuditActor(by.text, request_id)
            audit_log.note(tx, by.org_id, actor, "plugin.revocations", f"version {version}", now)
            return body

        return await self._storage.write(work)


def _org(tx: Transaction, by: Principal, named: str) -> Org:
    """An organisation by its id or slug, or by the id of a workspace at the top of it."""
    root = tx.workspaces.get(named.lower()) if ids.is_uuid(named.lower()) else None
    is_root = root is not None and root.parent_id is None and not root.removed
    return organisations.org_named(tx, by, root.org_id if root is not None and is_root else named)


def _checked_keys(given: Sequence[tuple[str, str, list[str]]]) -> list[PublisherKey]:
    if len(given) > plugins.MAX_KEYS:
        raise invalid("keys", f"an organisation trusts at most {plugins.MAX_KEYS} keys")
    keys = [_checked_key(*one) for one in given]
    if len({key.key_id for key in keys}) != len(keys):
        raise invalid("keys", "a key is listed twice: join what it may sign in one entry")
    return keys


def _checked_key(text: str, name: str, allow: list[str]) -> PublisherKey:
    check_text("keys", name, MAX_NAME_LENGTH)
    if len(allow) > plugins.MAX_GLOBS:
        raise invalid("keys", f"a key has at most {plugins.MAX_GLOBS} globs")
    for glob in allow:
        check_text("keys", glob, plugins.MAX_ENTRY_LENGTH)
    try:
        key = parse_public_key(text)
    except PluginError as problem:
        raise invalid("keys", str(problem)) from problem
    return PublisherKey(key.key_id, key.text, name, allow)


def _checked_list(given: dict[str, JSON]) -> dict[str, Any]:
    try:
        listed = parse_revocations(given)
    except PluginError as problem:
        raise invalid("revocations", str(problem)) from problem
    if len(listed.keys) + len(listed.digests) + len(listed.plugins) > plugins.MAX_REVOKED:
        raise invalid("revocations", f"the list has at most {plugins.MAX_REVOKED} entries")
    return listed.to_json()


def _goes_back(newest: int) -> ApiError:
    return ApiError(
        "version-conflict",
        f"the list has version {newest} already, and never goes back: read it, change it, and write it "
        f"without a version or as {newest + 1}",
    )
