"""A new key under everything that is sealed, while the house goes on and wherever it stops."""

from __future__ import annotations

import asyncio
import base64
import os
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from molecule_platform.domain.workspaces import Workspace
from molecule_platform.keys import service_sealers
from molecule_platform.keys.keyfile import Keychain, KeyFile, load_keychain
from molecule_platform.keys.sealing import key_id_of
from molecule_platform.ports.storage import StorageDown, Transaction
from molecule_platform.services.keys import key_rotation
from molecule_platform.services.keys.key_rotation import KeyCheck, KeyRotation
from molecule_platform.services.keys.secrets import SecretService
from molecule_platform.services.support.audit_log import AuditActor
from molecule_platform.services.workspaces.registration import dispatch_seal_context

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

BY = AuditActor("user:admin", "request-1")
PATIENCE_SECONDS = 30


class Vault:
    """The secrets of a rig under real keys in a folder."""

    def __init__(self, rig: Rig, folder: Path, given: str | None = None) -> None:
        self.rig = rig
        self.chain: Keychain = load_keychain(folder, given)
        sealing, lines = (
            service_sealers.for_secrets(self.chain.ring),
            service_sealers.for_lines(self.chain.ring),
        )
        self.secrets = SecretService(rig.storage, rig.clock, sealing, rig.lifecycle_services.restarts)
        places = service_sealers.for_places(self.chain.ring)
        self.rotation = KeyRotation(rig.storage, rig.clock, self.chain, sealing, lines, places)

    async def keys_in_use(self) -> frozenset[str]:
        return await self.rig.storage.read(lambda tx: tx.secrets.key_ids())

    async def fill(self, ada: Workspace, count: int = 3) -> dict[str, str]:
        values = {f"KEY_{number}": f"value-{number}" for number in range(count)}
        for key, value in values.items():
            await self.secrets.put(BY, self.rig.org.id, ada if key < "KEY_2" else None, key, value)
        place = dispatch_seal_context(ada.org_id, ada.id)
        line = service_sealers.for_texts(self.chain.ring)("shown to the agent", place)
        await self.rig.changed(ada, dispatch_secret_sealed=line)
        return values


@pytest.fixture
def vault(rig: Rig, tmp_path: Path) -> Vault:
    return Vault(rig, tmp_path)


async def test_everything_is_sealed_again_and_opens_as_before(vault: Vault, rig: Rig) -> None:
    ada = await rig.agent()
    values = await vault.fill(ada)
    old = vault.chain.current_id
    done = await vault.rotation.rotate(BY, rig.org.id)
    assert (done.resealed, done.failed_keys) == (4, [])
    assert done.key_id == vault.chain.current_id != old
    assert await vault.keys_in_use() == {done.key_id}
    assert await vault.secrets.values(BY, ada) == values
    assert (
        service_sealers.dispatch_secret(vault.chain.ring, await rig.workspace(ada.id)) == "shown to the agent"
    )
    [deed] = [
        d for d in await rig.storage.read(lambda tx: tx.audit.newest(rig.org.id, 9)) if "key" in d.action
    ]
    assert (deed.principal, deed.action, deed.object) == ("user:admin", "key.rotate", done.key_id)


async def test_a_secret_keeps_its_times(vault: Vault, rig: Rig) -> None:
    ada = await rig.agent()
    await vault.fill(ada)
    before = await vault.secrets.listing(rig.org.id, ada)
    rig.clock.advance(60)
    await vault.rotation.rotate(BY, rig.org.id)
    assert await vault.secrets.listing(rig.org.id, ada) == before


async def test_the_key_before_stays_for_one_rotation_and_goes_with_the_next(
    vault: Vault, rig: Rig, tmp_path: Path
) -> None:
    await vault.fill(await rig.agent())
    keys = [vault.chain.current_id]
    for _ in range(2):
        keys.append((await vault.rotation.rotate(BY, rig.org.id)).key_id)
    kept = [key_id_of(key) for key in KeyFile(tmp_path / "secrets.key").read()]
    assert kept == [keys[2], keys[1]]


async def test_more_rows_than_one_batch_are_all_done(
    vault: Vault, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_rotation, "BATCH", 2)
    ada = await rig.agent()
    values = await vault.fill(ada, 7)
    assert (await vault.rotation.rotate(BY, rig.org.id)).resealed == 8
    assert await vault.secrets.values(BY, ada) == values


@pytest.mark.parametrize("works", range(7))
async def test_a_rotation_that_stops_anywhere_leaves_everything_open_and_can_be_repeated(
    vault: Vault, rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works: int
) -> None:
    monkeypatch.setattr(key_rotation, "BATCH", 1)
    monkeypatch.setattr(key_rotation, "TURN", timedelta(0))
    ada = await rig.agent()
    values = await vault.fill(ada)
    write, done = rig.storage.write, 0

    async def stops(work: object) -> object:
        nonlocal done
        done += 1
        if done > works:
            raise StorageDown("the plug was pulled")
        return await write(work)  # pyright: ignore[reportArgumentType, reportUnknownVariableType]

    with monkeypatch.context() as pulled:
        pulled.setattr(rig.storage, "write", stops)
        with pytest.raises(StorageDown):
            await vault.rotation.rotate(BY, rig.org.id)
    again = Vault(rig, tmp_path)
    assert await again.secrets.values(BY, ada) == values
    assert (
        service_sealers.dispatch_secret(again.chain.ring, await rig.workspace(ada.id)) == "shown to the agent"
    )
    done_at_last = await again.rotation.rotate(BY, rig.org.id)
    assert await again.keys_in_use() == {done_at_last.key_id}


async def test_what_another_replica_seals_meanwhile_opens_everywhere(
    vault: Vault, rig: Rig, tmp_path: Path
) -> None:
    ada, other = await rig.agent(), Vault(rig, tmp_path)
    values = await vault.fill(ada)
    late = service_sealers.for_secrets(other.chain.ring).secret(
        rig.org.id, ada.id, "LATE", "late", rig.clock.now()
    )
    await vault.rotation.rotate(BY, rig.org.id)

    def work(tx: Transaction) -> None:
        tx.secrets.put(late)

    await rig.storage.write(work)
    for one in (vault, other):
        assert await one.secrets.values(BY, ada) == values | {"LATE": "late"}
    assert (await other.rotation.rotate(BY, rig.org.id)).resealed == 5


async def test_a_value_that_waits_to_be_written_through_two_rotations_opens_afterwards(
    vault: Vault, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await rig.agent()
    write, held = rig.storage.write, asyncio.Event()

    async def later(work: Callable[[Transaction], object]) -> object:
        await held.wait()
        return await write(work)

    with monkeypatch.context() as slow:
        slow.setattr(rig.storage, "write", later)
        putting = asyncio.ensure_future(vault.secrets.put(BY, rig.org.id, ada, "LATE", "late"))
        await asyncio.sleep(0)
    for _ in range(2):
        await vault.rotation.rotate(BY, rig.org.id)
    held.set()
    await putting
    assert await vault.secrets.values(BY, ada) == {"LATE": "late"}


async def test_only_one_rotation_goes_on_at_a_time_on_whichever_replica(
    vault: Vault, rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: Refuses
) -> None:
    await vault.fill(await rig.agent())
    begun, free = threading.Event(), threading.Event()

    def slowly() -> bool:
        begun.set()
        free.wait(PATIENCE_SECONDS)
        return True

    with monkeypatch.context() as slow:
        slow.setattr(vault.chain, "renew", slowly)
        going = asyncio.ensure_future(vault.rotation.rotate(BY, rig.org.id))
        await asyncio.to_thread(begun.wait)
    for one in (vault, Vault(rig, tmp_path)):
        refusal = await refuses(one.rotation.rotate(BY, rig.org.id), "conflict")
        assert "being rotated" in refusal.sentence
    free.set()
    await going
    assert (await vault.rotation.rotate(BY, rig.org.id)).resealed == 4


async def test_a_rotation_that_was_overtaken_throws_no_key_away(
    vault: Vault, rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: Refuses
) -> None:
    ada = await rig.agent()
    values = await vault.fill(ada)
    begun, free = threading.Event(), threading.Event()
    renew = vault.chain.renew

    def slowly() -> bool:
        renewed = renew()
        begun.set()
        free.wait(PATIENCE_SECONDS)
        return renewed

    monkeypatch.setattr(vault.chain, "renew", slowly)
    with monkeypatch.context() as short:
        short.setattr(key_rotation, "TURN", timedelta(0))
        going = asyncio.ensure_future(vault.rotation.rotate(BY, rig.org.id))
        await asyncio.to_thread(begun.wait)
    taken = await rig.storage.write(lambda tx: tx.loops.claim("rotate-key", "other", timedelta(minutes=1)))
    assert taken is not None
    free.set()
    await refuses(going, "conflict")
    assert await Vault(rig, tmp_path).secrets.values(BY, ada) == values


async def test_a_row_that_no_key_opens_is_named_and_hinders_no_other(
    vault: Vault, rig: Rig, tmp_path: Path
) -> None:
    ada = await rig.agent()
    await vault.fill(ada)
    stranger = Vault(rig, tmp_path, base64.b64encode(os.urandom(32)).decode())
    await stranger.secrets.put(BY, rig.org.id, None, "LOST", "x")
    done = await vault.rotation.rotate(BY, rig.org.id)
    assert (done.resealed, done.failed_keys) == (4, ["global:LOST"])


async def test_a_given_key_is_the_operator_s_to_change_and_what_the_old_one_sealed_is_sealed_again(
    vault: Vault, rig: Rig, tmp_path: Path, refuses: Refuses
) -> None:
    ada = await rig.agent()
    values = await vault.fill(ada)
    given = Vault(rig, tmp_path, base64.b64encode(os.urandom(32)).decode())
    assert (await given.rotation.rotate(BY, rig.org.id)).resealed == 4
    assert await given.secrets.values(BY, ada) == values
    refusal = await refuses(given.rotation.rotate(BY, rig.org.id), "conflict")
    assert "SECRETS_ENCRYPTION_KEY" in refusal.sentence


async def test_keys_fit_until_something_is_sealed_with_one_that_is_not_here(
    vault: Vault, rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_rotation, "FRESH_SECONDS", 0)
    check = KeyCheck(rig.storage, vault.chain)
    assert await check()
    await vault.fill(await rig.agent())
    assert await check()
    stranger = Vault(rig, tmp_path, base64.b64encode(os.urandom(32)).decode())
    await stranger.secrets.put(BY, rig.org.id, None, "LOST", "x")
    assert not await check()
    assert await KeyCheck(rig.storage, stranger.chain)()


async def test_keys_do_not_fit_once_their_file_is_gone(vault: Vault, rig: Rig, tmp_path: Path) -> None:
    await vault.fill(await rig.agent())
    (tmp_path / "secrets.key").unlink()
    assert not await KeyCheck(rig.storage, vault.chain)()
