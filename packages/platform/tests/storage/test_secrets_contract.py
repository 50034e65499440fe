"""Secrets of the whole house, the keys they are sealed with, who touched them; on every store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert

from molecule_platform.ports.audit_log import AuditEntry
from molecule_platform.ports.secrets import SealedLine, SealedSecret
from molecule_platform.ports.storage import Transaction
from molecule_platform.storage.tables import idempotency
from molecule_platform.storage.transaction import SqlTransaction

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeWorkspace
    from packages.platform.tests.storage.conftest import Store

KEY_ID = "0123456789abcdef"


def sealed(store: Store, place: str, key: str, key_id: str = KEY_ID) -> SealedSecret:
    at = store.ada.created_at
    return SealedSecret(store.org.id, place, key, b"nonce", b"\x00\xff", key_id, at, at)


async def test_one_secret_is_found_in_its_place_alone(store: Store) -> None:
    ours, hers = sealed(store, "", "KEY"), sealed(store, store.ada.id, "KEY")

    def work(tx: Transaction) -> list[SealedSecret | None]:
        tx.secrets.put(ours)
        tx.secrets.put(hers)
        return [tx.secrets.get(store.org.id, place, "KEY") for place in ("", store.ada.id, store.bob.id)]

    assert await store.storage.write(work) == [ours, hers, None]


async def test_a_restart_is_owed_to_what_runs_and_has_no_value_of_its_own(
    store: Store, make_workspace: MakeWorkspace
) -> None:
    ours = {"external": False, "status": "online"}
    plain, shadowing = make_workspace(name="plain", **ours), make_workspace(name="shadowing", **ours)
    others = [
        make_workspace(name=status, external=False, status=status)
        for status in ("paused", "removed", "hibernated")
    ]

    def work(tx: Transaction) -> list[list[tuple[str, str | None]]]:
        for workspace in (plain, shadowing, *others):
            tx.workspaces.insert(workspace)
        tx.secrets.put(sealed(store, shadowing.id, "KEY"))
        found: list[list[tuple[str, str | None]]] = []
        for key in ("KEY", "OTHER"):
            count = tx.secrets.owe_restarts(store.org.id, key, f"{key} changed")
            owed = tx.upkeep.owed_a_restart(10)
            assert count == len(owed) == len(tx.upkeep.owed_a_restart(count))
            found.append(sorted((one.name, one.restart_owed) for one in owed))
        return found

    assert await store.storage.write(work) == [
        [("plain", "KEY changed")],
        [("plain", "OTHER changed"), ("shadowing", "OTHER changed")],
    ]
    kept = await store.storage.read(lambda tx: tx.workspaces.get(plain.id))
    assert kept is not None
    assert kept.version == plain.version + 2


async def test_pages_go_through_every_secret_once(store: Store) -> None:
    everything = [
        sealed(store, place, key) for place in ("", store.ada.id, store.bob.id) for key in ("A", "B", "C")
    ]

    def work(tx: Transaction) -> list[SealedSecret]:
        for secret in everything:
            tx.secrets.put(secret)
        found = list[SealedSecret]()
        while page := tx.secrets.page(found[-1] if found else None, 2):
            found += page
        return found

    found = await store.storage.write(work)
    assert len(found) == len(everything)
    assert {(secret.workspace_id, secret.key) for secret in found} == {
        (secret.workspace_id, secret.key) for secret in everything
    }


async def test_a_sealed_line_is_replaced_as_a_new_version(store: Store) -> None:
    def work(tx: Transaction) -> list[Any]:
        tx.workspaces.touch(store.ada.id, dispatch_secret_sealed=f"{KEY_ID}.a.b")
        lines = tx.secrets.lines("", 10)
        tx.secrets.put_line(replace(lines[0], line="other"))
        after = tx.workspaces.get(store.ada.id)
        assert after is not None
        return [lines, after.dispatch_secret_sealed, after.version, tx.secrets.lines(store.ada.id, 10)]

    line = SealedLine(store.ada.id, store.org.id, f"{KEY_ID}.a.b")
    assert await store.storage.write(work) == [[line], "other", store.ada.version + 1, []]


async def test_every_key_that_something_is_sealed_with_is_known(store: Store) -> None:
    at = store.ada.created_at

    def work(tx: Transaction) -> list[frozenset[str]]:
        assert isinstance(tx, SqlTransaction)
        none = tx.secrets.key_ids()
        for key, key_id in (("A", "1" * 16), ("B", "2" * 16), ("C", "1" * 16)):
            tx.secrets.put(sealed(store, "", key, key_id))
        tx.workspaces.touch(store.ada.id, dispatch_secret_sealed=f"{'3' * 16}.a.b")
        idempotent_handler = {
            "scope": "s",
            "body_hash": "h",
            "replica": "r",
            "created_at": at,
            "expires_at": at,
        }
        for key, answer in (("open", None), ("done", f"{'4' * 16}.a.b")):
            tx.connection.execute(
                insert(idempotency).values(key=key, answer_sealed=answer, **idempotent_handler)
            )
        return [none, tx.secrets.key_ids()]

    none, all_of_them = await store.storage.write(work)
    assert none == frozenset()
    assert all_of_them == {digit * 16 for digit in "1234"}


async def test_deeds_are_kept_in_order_and_by_organisation(store: Store) -> None:
    at = store.ada.created_at
    deeds = [
        AuditEntry(
            store.org.id, "user:ann", f"secret.{verb}", "org:one/KEY", "request", at + timedelta(seconds=n)
        )
        for n, verb in enumerate(("write", "read", "delete"))
    ]

    def work(tx: Transaction) -> list[list[AuditEntry]]:
        for deed in deeds:
            tx.audit.note(deed)
        return [tx.audit.newest(store.org.id, 2), tx.audit.newest("another", 2)]

    assert await store.storage.write(work) == [[deeds[2], deeds[1]], []]
