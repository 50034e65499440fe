"""Secrets: sealed on write, opened for their own workspace, and never said anywhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from molecule_platform.domain.events import Event
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.secrets import SealedSecret
from molecule_platform.ports.storage import StorageDown, Transaction
from molecule_platform.services.support.audit_log import AuditActor
from molecule_platform.services.workspaces import restarts

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

VALUE = "the-value-that-nobody-may-see"
BY = AuditActor("user:ann", "request-1")


async def deeds(rig: Rig) -> list[tuple[str, str, str, str]]:
    found = await rig.storage.read(lambda tx: tx.audit.newest(rig.org.id, 100))
    return [(deed.principal, deed.action, deed.object, deed.request_id) for deed in reversed(found)]


async def changes(rig: Rig) -> list[Event]:
    found = await rig.storage.read(lambda tx: tx.events.after(0, 1000, types=["SECRET_CHANGED"]))
    return [event for event in found if event.event_type == "SECRET_CHANGED"]


async def test_a_workspace_s_own_secrets_shadow_those_of_its_organisation(rig: Rig) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    await rig.secrets.put(BY, rig.org.id, None, "A", "ours")
    await rig.secrets.put(BY, rig.org.id, None, "B", "ours")
    await rig.secrets.put(BY, rig.org.id, ada, "B", "hers")
    assert await rig.secrets.values(BY, ada) == {"A": "ours", "B": "hers"}
    assert await rig.secrets.values(BY, bob) == {"A": "ours", "B": "ours"}
    assert [(row["key"], row["scope"]) for row in await rig.secrets.listing(rig.org.id, ada)] == [
        ("A", "global"),
        ("B", "workspace"),
    ]
    assert [row["key"] for row in await rig.secrets.listing(rig.org.id, None)] == ["A", "B"]


async def test_a_value_is_in_no_list_no_event_and_no_row(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.secrets.put(BY, rig.org.id, ada, "KEY", VALUE)
    shown = [
        await rig.secrets.listing(rig.org.id, ada),
        await rig.storage.read(lambda tx: tx.events.after(0, 100)),
        await rig.storage.read(lambda tx: tx.secrets.all_of(rig.org.id, ada.id)),
        await rig.rows(ada),
    ]
    assert VALUE not in repr(shown)
    assert (await rig.events())[-1] == "SECRET_CHANGED"


async def test_all_values_come_or_none_and_those_that_cannot_be_opened_are_named(
    rig: Rig, refuses: Refuses
) -> None:
    ada = await rig.agent()
    await rig.secrets.put(BY, rig.org.id, ada, "GOOD", VALUE)

    def moved(workspace_id: str, key: str) -> SealedSecret:
        at = rig.clock.now()
        return SealedSecret(rig.org.id, workspace_id, key, b"n", b"elsewhere|x", "k1", at, at)

    await rig.storage.write(lambda tx: tx.secrets.put(moved(ada.id, "BAD")))
    await rig.storage.write(lambda tx: tx.secrets.put(moved("", "WORSE")))
    refusal = await refuses(rig.secrets.values(BY, ada), "internal")
    assert refusal.extras["failed_keys"] == ["workspace:BAD", "global:WORSE"]
    assert VALUE not in str(refusal)


async def test_a_value_sealed_for_one_place_cannot_be_opened_in_another(rig: Rig, refuses: Refuses) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    await rig.secrets.put(BY, rig.org.id, ada, "KEY", VALUE)
    [hers] = await rig.storage.read(lambda tx: tx.secrets.all_of(rig.org.id, ada.id))
    stolen = replace(hers, workspace_id=bob.id)
    await rig.storage.write(lambda tx: tx.secrets.put(stolen))
    await refuses(rig.secrets.values(BY, bob), "internal")


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [
        ("1A", VALUE, "key"),
        ("A-B", VALUE, "key"),
        ("", VALUE, "key"),
        ("K" * 129, VALUE, "key"),
        ("K", "é" * 33_000, "value"),
    ],
)
async def test_a_key_or_value_that_breaks_its_rule_is_refused_without_repeating_the_value(
    rig: Rig, refuses: Refuses, key: str, value: str, field: str
) -> None:
    refusal = await refuses(rig.secrets.put(BY, rig.org.id, None, key, value), "invalid-request")
    assert refusal.extras["field"] == field
    assert value[:20] not in str(refusal) + repr(refusal.extras)


async def test_the_longest_key_and_the_largest_value_are_kept(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.secrets.put(BY, rig.org.id, ada, "K" * 128, "x" * 65_536)
    assert await rig.secrets.values(BY, ada) == {"K" * 128: "x" * 65_536}


@pytest.mark.parametrize("ours", [True, False])
async def test_a_deleted_secret_is_gone_once(rig: Rig, refuses: Refuses, ours: bool) -> None:
    ada = await rig.agent()
    place: Workspace | None = None if ours else ada
    await rig.secrets.put(BY, rig.org.id, place, "KEY", VALUE)
    await rig.secrets.delete(BY, rig.org.id, place, "KEY")
    assert await rig.secrets.values(BY, ada) == {}
    await refuses(rig.secrets.delete(BY, rig.org.id, place, "KEY"), "not-found")


async def test_who_wrote_read_or_deleted_a_secret_is_written_down(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.secrets.put(BY, rig.org.id, ada, "KEY", VALUE)
    await rig.secrets.put(BY, rig.org.id, None, "OURS", VALUE)
    await rig.secrets.values(AuditActor(f"workspace:{ada.id}", "request-2"), ada)
    await rig.secrets.delete(BY, rig.org.id, ada, "KEY")
    assert await deeds(rig) == [
        ("user:ann", "secret.write", f"workspace:{ada.id}/KEY", "request-1"),
        ("user:ann", "secret.write", f"org:{rig.org.id}/OURS", "request-1"),
        (f"workspace:{ada.id}", "secret.read", f"workspace:{ada.id}/*", "request-2"),
        ("user:ann", "secret.delete", f"workspace:{ada.id}/KEY", "request-1"),
    ]


async def test_values_that_cannot_be_written_down_as_read_are_not_read(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await rig.agent()
    await rig.secrets.put(BY, rig.org.id, ada, "KEY", VALUE)

    def refuse(_tx: Transaction, *_rest: object) -> None:
        raise StorageDown("the disk is full")

    monkeypatch.setattr("molecule_platform.services.support.audit_log.note", refuse)
    with pytest.raises(StorageDown):
        await rig.secrets.values(BY, ada)


async def test_a_refused_change_leaves_no_trace(rig: Rig, refuses: Refuses) -> None:
    await refuses(rig.secrets.delete(BY, rig.org.id, None, "KEY"), "not-found")
    assert (await deeds(rig), await changes(rig)) == ([], [])


async def test_a_change_is_told_to_the_workspace_or_to_the_organisation(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.secrets.put(BY, rig.org.id, ada, "KEY", VALUE)
    await rig.secrets.put(BY, rig.org.id, None, "OURS", VALUE)
    hers, ours = await changes(rig)
    assert (hers.workspace_id, hers.payload, hers.is_private) == (
        ada.id,
        {"key": "KEY", "scope": "workspace"},
        True,
    )
    assert (ours.workspace_id, ours.payload, ours.is_private) == (
        "",
        {"key": "OURS", "scope": "global"},
        False,
    )


async def why_restarted(rig: Rig, *several: Workspace) -> list[str | None]:
    return [(await rig.workspace(workspace.id)).restart_reason for workspace in several]


async def test_only_processes_of_ours_that_use_the_value_restart(rig: Rig) -> None:
    await rig.lifecycle_services.provisioning.close()
    outside = await rig.agent("Outside")
    ours = [await rig.changed(await rig.agent(name), external=False) for name in ("Ada", "Bob", "Paused")]
    await rig.changed(ours[2], status="paused")
    assert not await rig.secrets.put(BY, rig.org.id, outside, "KEY", "x")
    assert await rig.secrets.put(BY, rig.org.id, ours[1], "KEY", "x")
    assert await why_restarted(rig, outside, *ours) == [None, None, "the secret KEY changed", None]
    await rig.changed(ours[1], status="online", restart_reason=None)
    assert await rig.secrets.put(BY, rig.org.id, None, "KEY", "x")
    assert await why_restarted(rig, outside, *ours) == [None, "the secret KEY changed", None, None]
    await rig.secrets.delete(BY, rig.org.id, ours[1], "KEY")
    assert await why_restarted(rig, ours[1]) == ["the secret KEY was deleted"]


async def test_a_restart_is_asked_for_in_the_same_commit_as_the_value(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.lifecycle_services.provisioning.close()
    ada, bob = [await rig.changed(await rig.agent(name), external=False) for name in ("Ada", "Bob")]
    write, done = rig.storage.write, 0

    async def once(work: Callable[[Transaction], object]) -> object:
        nonlocal done
        done += 1
        if done > 1:
            raise StorageDown("the plug was pulled")
        return await write(work)

    for place in (ada, None):
        done = 0
        with monkeypatch.context() as pulled:
            pulled.setattr(rig.storage, "write", once)
            assert await rig.secrets.put(BY, rig.org.id, place, "KEY" if place else "OURS", "x")
    assert await why_restarted(rig, ada, bob) == ["the secret KEY changed", None]
    await rig.lifecycle_services.process_check.tick()
    assert await why_restarted(rig, bob) == ["the secret OURS changed"]
    assert (await rig.workspace(bob.id)).status == "provisioning"


async def test_more_restarts_than_fit_in_one_commit_are_all_begun(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.lifecycle_services.provisioning.close()
    monkeypatch.setattr(restarts, "PAGE", 2)
    several = [await rig.changed(await rig.agent(f"Ada {n}"), external=False) for n in range(5)]
    await rig.secrets.put(BY, rig.org.id, None, "KEY", "x")
    assert len([why for why in await why_restarted(rig, *several) if why]) == 2
    for workspace in several:
        rig.provisioner.running.add(workspace.id)
    await rig.lifecycle_services.process_check.tick()
    assert await why_restarted(rig, *several) == ["the secret KEY changed"] * 5


async def test_a_model_is_a_secret_that_operators_may_read(rig: Rig, refuses: Refuses) -> None:
    ada = await rig.agent()
    assert await rig.secrets.model(BY, ada) is None
    await rig.secrets.choose_model(BY, ada, "sonnet")
    assert await rig.secrets.model(BY, ada) == "sonnet"
    assert await rig.secrets.values(BY, ada) == {"MODEL_PROVIDER": "sonnet"}
    await rig.secrets.choose_model(BY, ada, "")
    await rig.secrets.choose_model(BY, ada, "")
    assert await rig.secrets.model(BY, ada) is None
    await refuses(rig.secrets.choose_model(BY, ada, "a\nb"), "invalid-request")
    read = [deed for deed in await deeds(rig) if deed[1] == "secret.read"]
    assert [what for _, _, what, _ in read] == [f"workspace:{ada.id}/MODEL_PROVIDER", f"workspace:{ada.id}/*"]
