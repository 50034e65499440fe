"""Secrets: sealed on write, opened for their own workspace, and never said anywhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.secrets import SealedSecret

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

VALUE = "the-value-that-nobody-may-see"


async def test_a_workspace_s_own_secrets_shadow_those_of_its_organisation(rig: Rig) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    await rig.secrets.put(rig.org.id, None, "A", "ours")
    await rig.secrets.put(rig.org.id, None, "B", "ours")
    await rig.secrets.put(rig.org.id, ada, "B", "hers")
    assert await rig.secrets.values(ada) == {"A": "ours", "B": "hers"}
    assert await rig.secrets.values(bob) == {"A": "ours", "B": "ours"}
    assert [(row["key"], row["scope"]) for row in await rig.secrets.listing(rig.org.id, ada)] == [
        ("A", "global"),
        ("B", "workspace"),
    ]
    assert [row["key"] for row in await rig.secrets.listing(rig.org.id, None)] == ["A", "B"]


async def test_a_value_is_in_no_list_no_event_and_no_row(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.secrets.put(rig.org.id, ada, "KEY", VALUE)
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
    await rig.secrets.put(rig.org.id, ada, "GOOD", VALUE)

    def moved(workspace_id: str, key: str) -> SealedSecret:
        at = rig.clock.now()
        return SealedSecret(rig.org.id, workspace_id, key, b"n", b"elsewhere|x", "k1", at, at)

    await rig.storage.write(lambda tx: tx.secrets.put(moved(ada.id, "BAD")))
    await rig.storage.write(lambda tx: tx.secrets.put(moved("", "WORSE")))
    refusal = await refuses(rig.secrets.values(ada), "internal")
    assert refusal.extras["failed_keys"] == ["workspace:BAD", "global:WORSE"]
    assert VALUE not in str(refusal)


async def test_a_value_sealed_for_one_place_cannot_be_opened_in_another(rig: Rig, refuses: Refuses) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    await rig.secrets.put(rig.org.id, ada, "KEY", VALUE)
    [hers] = await rig.storage.read(lambda tx: tx.secrets.all_of(rig.org.id, ada.id))
    stolen = replace(hers, workspace_id=bob.id)
    await rig.storage.write(lambda tx: tx.secrets.put(stolen))
    await refuses(rig.secrets.values(bob), "internal")


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
    refusal = await refuses(rig.secrets.put(rig.org.id, None, key, value), "invalid-request")
    assert refusal.extras["field"] == field
    assert value[:20] not in str(refusal) + repr(refusal.extras)


async def test_the_longest_key_and_the_largest_value_are_kept(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.secrets.put(rig.org.id, ada, "K" * 128, "x" * 65_536)
    assert await rig.secrets.values(ada) == {"K" * 128: "x" * 65_536}


@pytest.mark.parametrize("ours", [True, False])
async def test_a_deleted_secret_is_gone_once(rig: Rig, refuses: Refuses, ours: bool) -> None:
    ada = await rig.agent()
    place: Workspace | None = None if ours else ada
    await rig.secrets.put(rig.org.id, place, "KEY", VALUE)
    await rig.secrets.delete(rig.org.id, place, "KEY")
    assert await rig.secrets.values(ada) == {}
    await refuses(rig.secrets.delete(rig.org.id, place, "KEY"), "not-found")
