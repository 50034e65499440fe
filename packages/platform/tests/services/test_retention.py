"""Every table that grows is kept short."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from molecule_platform.domain.messages import MessageOutcome
from molecule_platform.services.maintenance import retention
from molecule_platform.services.maintenance.retention import RetentionPeriods, RetentionService
from molecule_platform.services.messaging.messages import settlement
from molecule_platform.services.support.audit_log import AuditActor

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Rig


def until_next_year(rig: Rig) -> float:
    """The seconds until both clocks, the one of the tests and the one that ids are made by, are long past."""
    later = max(rig.clock.now(), datetime.now(UTC)) + timedelta(days=400)
    return (later - rig.clock.now()).total_seconds()


async def test_what_is_old_goes_and_what_is_open_stays(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    ada = await rig.agent()
    ended = [(await rig.send(ada, f"{number}")).message for number in range(4)]
    for message in ended:
        outcome = MessageOutcome("answered", b"{}", "completed")
        await rig.storage.write(
            lambda tx, m=message, o=outcome: settlement.settle(tx, m.id, o, rig.clock.now())
        )
    waiting = (await rig.send(ada, "open", timeout_seconds=10**9)).message
    await rig.secrets.put(AuditActor("user:ann", "r"), rig.org.id, None, "KEY", "x")
    rig.clock.advance(until_next_year(rig))
    await RetentionService(rig.storage, rig.clock, RetentionPeriods()).tick()
    assert [row.message_id for row in await rig.rows(ada)] == [waiting.id]
    assert await rig.storage.read(lambda tx: [m.id for m in ended if tx.mailbox.get(m.id)]) == []
    assert await rig.events() == []
    assert await rig.storage.read(lambda tx: tx.audit.newest(rig.org.id, 10)) == []
    assert await rig.storage.read(lambda tx: tx.secrets.all_of(rig.org.id, "")) != []


async def test_what_is_young_stays(rig: Rig) -> None:
    ada = await rig.agent()
    message = (await rig.send(ada)).message
    outcome = MessageOutcome("answered", b"{}", "completed")
    await rig.storage.write(lambda tx: settlement.settle(tx, message.id, outcome, rig.clock.now()))
    before = await rig.events()
    await RetentionService(rig.storage, rig.clock, RetentionPeriods()).tick()
    assert (await rig.message(message.id)).status == "answered"
    assert len(await rig.rows(ada)) == 1
    assert await rig.events() == before
