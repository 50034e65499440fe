"""Workspaces, tokens, secrets, presence, activity and events: their verbs, on every store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import insert, update

from molecule_platform.domain.access import TreeMember
from molecule_platform.domain.credentials import EnrolmentToken, Token
from molecule_platform.domain.events import Event
from molecule_platform.domain.messages import MessageOutcome
from molecule_platform.ports.activity import ActivityFilter, ActivityRow
from molecule_platform.ports.secrets import SealedSecret
from molecule_platform.ports.storage import Transaction
from molecule_platform.storage.tables import access_grants, replicas
from molecule_platform.storage.transaction import SqlTransaction

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeMessage, MakeWorkspace
    from packages.platform.tests.storage.conftest import Store

MINUTE = timedelta(minutes=1)


# Workspaces


async def test_a_workspace_comes_back_as_it_was_kept(store: Store, make_workspace: MakeWorkspace) -> None:
    whole = make_workspace(
        parent_id=store.ada.id,
        agent_card={"name": "é", "skills": [{"name": "a\0b"}]},
        protocols=["1.0"],
        capabilities={"session": True},
        budget_limit=10**12,
        last_heartbeat_at=store.ada.created_at + timedelta(milliseconds=123),
        last_error_rate=0.25,
    )
    await store.storage.write(lambda tx: tx.workspaces.insert(whole))
    assert await store.storage.read(lambda tx: tx.workspaces.get(whole.id)) == whole
    assert await store.storage.read(lambda tx: tx.workspaces.get("unknown")) is None


async def test_the_access_rule_reads_of_a_workspace_what_the_workspace_says(
    store: Store, make_workspace: MakeWorkspace
) -> None:
    alone = make_workspace(parent_id=store.ada.id, isolated=True)
    gone = make_workspace(status="removed")

    def work(tx: Transaction) -> list[TreeMember | None]:
        for workspace in (alone, gone):
            tx.workspaces.insert(workspace)
        return [tx.workspaces.member(one) for one in (store.ada.id, alone.id, gone.id, "unknown")]

    found = await store.storage.write(work)
    assert found == [store.ada.as_member(), alone.as_member(), gone.as_member(), None]


async def test_the_second_of_two_updates_from_the_same_version_is_refused(store: Store) -> None:
    first, second = store.ada.changed(status="online"), store.ada.changed(status="offline")
    assert await store.storage.write(lambda tx: tx.workspaces.update(first))
    assert not await store.storage.write(lambda tx: tx.workspaces.update(second))
    assert await store.storage.read(lambda tx: tx.workspaces.get(store.ada.id)) == first


async def test_touching_sets_columns_without_a_new_version(store: Store) -> None:
    at = store.ada.created_at + MINUTE
    await store.storage.write(lambda tx: tx.workspaces.touch(store.ada.id, last_outbound_at=at))
    found = await store.storage.read(lambda tx: tx.workspaces.get(store.ada.id))
    assert found == replace(store.ada, last_outbound_at=at)


async def test_a_status_outside_the_table_is_an_error_not_ignored(store: Store) -> None:
    with pytest.raises(Exception, match=r"(?i)check constraint|status_known"):
        await store.storage.write(lambda tx: tx.workspaces.touch(store.ada.id, status="asleep"))


async def test_stale_are_those_that_count_as_alive_although_their_time_ran_out(store: Store) -> None:
    now = store.ada.created_at

    def work(tx: Transaction) -> list[list[str]]:
        tx.workspaces.touch(store.ada.id, status="degraded", liveness_expires_at=now)
        tx.workspaces.touch(store.bob.id, status="paused", liveness_expires_at=now)
        moments = (now, now + timedelta(milliseconds=1))
        return [[w.id for w in tx.workspaces.stale(moment, 10)] for moment in moments]

    assert await store.storage.write(work) == [[], [store.ada.id]]


async def test_grants_lead_forwards_and_back_only_when_they_run_both_ways(
    store: Store, make_workspace: MakeWorkspace
) -> None:
    now = store.ada.created_at
    cyd, dan = make_workspace(), make_workspace()

    def grant(name: str, start: str, end: str, **more: Any) -> dict[str, Any]:
        made: dict[str, Any] = {"bidirectional": False, "expires_at": now + MINUTE, "revoked_at": None}
        fixed = {
            "id": name,
            "org_id": store.org.id,
            "reason": "",
            "created_by": "user:ann",
            "created_at": now,
        }
        return {**fixed, "from_id": start, "to_id": end, **made, **more}

    def work(tx: Transaction) -> list[frozenset[str]]:
        assert isinstance(tx, SqlTransaction)
        for workspace in (cyd, dan):
            tx.workspaces.insert(workspace)
        rows = [
            grant("1", store.ada.id, store.bob.id),
            grant("2", store.ada.id, cyd.id, bidirectional=True),
            grant("3", store.ada.id, dan.id, revoked_at=now),
            grant("4", dan.id, store.ada.id, expires_at=now),
        ]
        tx.connection.execute(insert(access_grants), rows)
        return [tx.workspaces.granted_from(w.id, now) for w in (store.ada, store.bob, cyd, dan)]

    assert await store.storage.write(work) == [
        {store.bob.id, cyd.id},
        frozenset(),
        {store.ada.id},
        frozenset(),
    ]


# Tokens


def token_of(store: Store, name: str, **more: Any) -> Token:
    return Token(
        id=name,
        org_id=store.org.id,
        kind="workspace",
        token_hash=f"hash-{name}",
        prefix=name,
        scopes=["workspace"],
        created_by="user:ann",
        created_at=store.ada.created_at,
        workspace_id=store.ada.id,
        recovery_hash=f"recovery-{name}",
        **more,
    )


async def test_a_token_is_found_by_its_digest_also_when_it_has_ended(store: Store) -> None:
    token = token_of(store, "t1", expires_at=store.ada.created_at, revoked_at=store.ada.created_at)
    await store.storage.write(lambda tx: tx.tokens.insert(token))
    assert await store.storage.read(lambda tx: tx.tokens.by_hash("hash-t1")) == token
    assert await store.storage.read(lambda tx: tx.tokens.by_hash("hash-t2")) is None


async def test_a_recovery_secret_works_for_the_live_token_of_its_own_workspace(store: Store) -> None:
    now = store.ada.created_at

    def work(tx: Transaction) -> list[bool]:
        tx.tokens.insert(token_of(store, "t1"))
        before = [
            tx.tokens.by_recovery_hash(who, "recovery-t1") is not None for who in (store.ada.id, store.bob.id)
        ]
        tx.tokens.revoke("t1", now, "recovered")
        return [*before, tx.tokens.by_recovery_hash(store.ada.id, "recovery-t1") is not None]

    assert await store.storage.write(work) == [True, False, False]


async def test_use_and_end_of_tokens_are_remembered(store: Store) -> None:
    now = store.ada.created_at

    def work(tx: Transaction) -> list[Any]:
        tx.tokens.insert(token_of(store, "t1"))
        tx.tokens.insert(token_of(store, "t2"))
        tx.tokens.used("t1", now)
        tx.tokens.revoke("t1", now, "by hand")
        tx.tokens.revoke_all(store.ada.id, now + MINUTE, "workspace-removed")
        return [tx.tokens.by_hash("hash-t1"), tx.tokens.by_hash("hash-t2")]

    first, second = await store.storage.write(work)
    assert (first.last_used_at, first.revoked_at, first.revoke_reason) == (now, now, "by hand")
    assert (second.revoked_at, second.revoke_reason) == (now + MINUTE, "workspace-removed")
    assert (first.recovery_hash, second.recovery_hash) == (None, None)


async def test_an_enrolment_token_is_spent_once_in_time_and_by_its_own_workspace(store: Store) -> None:
    now = store.ada.created_at

    def work(tx: Transaction) -> list[bool]:
        for name in ("e1", "e2"):
            scopes = ["ws.send"]
            tx.tokens.insert_enrolment(
                EnrolmentToken(name, store.org.id, store.ada.id, scopes, "user:admin", now, now + MINUTE)
            )
        use = tx.tokens.use_enrolment
        return [
            use(store.bob.id, "e1", now),
            use(store.ada.id, "unknown", now),
            use(store.ada.id, "e1", now),
            use(store.ada.id, "e1", now),
            use(store.ada.id, "e2", now + MINUTE),
        ]

    assert await store.storage.write(work) == [False, False, True, False, False]


# Secrets and presence


def sealed(store: Store, place: str, key: str, at: datetime, ciphertext: bytes = b"\x00\xff") -> SealedSecret:
    return SealedSecret(store.org.id, place, key, b"nonce", ciphertext, "k1", at, at)


async def test_a_secret_is_replaced_but_keeps_its_birthday(store: Store) -> None:
    now = store.ada.created_at
    old, new = sealed(store, "", "KEY", now), sealed(store, "", "KEY", now + MINUTE, b"other")

    def work(tx: Transaction) -> list[list[SealedSecret]]:
        tx.secrets.put(old)
        first = tx.secrets.all_of(store.org.id, "")
        tx.secrets.put(new)
        return [first, tx.secrets.all_of(store.org.id, "")]

    assert await store.storage.write(work) == [[old], [replace(new, created_at=now)]]


async def test_secrets_belong_to_exactly_their_scope_and_are_listed_by_key(store: Store) -> None:
    now = store.ada.created_at

    def work(tx: Transaction) -> list[Any]:
        for place, key in (("", "B"), ("", "A"), (store.ada.id, "A")):
            tx.secrets.put(sealed(store, place, key, now))
        deleted = [tx.secrets.delete(store.org.id, store.ada.id, key) for key in ("A", "A", "B")]
        ours, hers = tx.secrets.all_of(store.org.id, ""), tx.secrets.all_of(store.org.id, store.ada.id)
        return [deleted, [secret.key for secret in ours], hers]

    assert await store.storage.write(work) == [[True, False, False], ["A", "B"], []]


async def test_a_replica_lives_while_it_is_seen_and_until_it_leaves(store: Store) -> None:
    def work(tx: Transaction) -> list[list[str]]:
        assert isinstance(tx, SqlTransaction)
        presence = tx.presence
        for name in ("r1", "r2"):
            presence.seen(name)
        both = sorted(presence.alive(MINUTE))
        hour_ago = datetime.now(UTC) - 60 * MINUTE
        tx.connection.execute(update(replicas).values(seen_at=hour_ago))
        presence.seen("r1")
        one, day = presence.alive(MINUTE), sorted(presence.alive(24 * 60 * MINUTE))
        presence.leave("r1")
        return [both, one, day, presence.alive(24 * 60 * MINUTE)]

    assert await store.storage.write(work) == [["r1", "r2"], ["r1"], ["r1", "r2"], ["r2"]]


# Activity and events


def logged(tx: Transaction, store: Store, name: str, **more: Any) -> ActivityRow:
    defaults: dict[str, Any] = {"caller": "user:ann", "created_at": store.ada.created_at}
    row = ActivityRow(
        id=name,
        org_id=store.org.id,
        seq=tx.activity.next_seq(),
        workspace_id=more.pop("workspace_id", store.ada.id),
        activity_type=more.pop("activity_type", "a2a_receive"),
        **(defaults | more),
    )
    tx.activity.insert(row)
    return row


async def test_an_activity_row_comes_back_as_kept_with_its_message(
    store: Store, make_message: MakeMessage
) -> None:
    message = make_message(target_id=store.ada.id, seq=10**9)

    def work(tx: Transaction) -> tuple[ActivityRow, list[ActivityRow]]:
        tx.mailbox.insert(message)
        row = logged(tx, store, "a1", message_id=message.id, request_body={"é": [1]}, summary="words")
        logged(tx, store, "a0", message_id="pruned", workspace_id=store.bob.id, metadata={"a": None})
        [orphan] = tx.activity.rows(store.bob.id, ActivityFilter())
        assert (orphan.message, orphan.metadata) == (None, {"a": None})
        return row, tx.activity.rows(store.ada.id, ActivityFilter())

    row, found = await store.storage.write(work)
    assert found == [replace(row, message=message, status="pending")]


async def test_an_activity_row_tells_how_its_message_ended(store: Store, make_message: MakeMessage) -> None:
    message = make_message(target_id=store.ada.id, seq=10**9)
    problem = MessageOutcome("failed", error={"code": "internal", "message": "it broke"})

    def work(tx: Transaction) -> list[ActivityRow]:
        tx.mailbox.insert(message)
        logged(tx, store, "a1", message_id=message.id)
        tx.mailbox.settle(message.id, problem, message.created_at + 2 * MINUTE)
        return tx.activity.rows(store.ada.id, ActivityFilter())

    [row] = await store.storage.write(work)
    assert (row.status, row.duration_ms, row.error_detail) == ("error", 120_000, "it broke")


async def test_each_filter_of_the_activity_log_narrows_it(store: Store, make_message: MakeMessage) -> None:
    now = store.ada.created_at

    def work(tx: Transaction) -> list[list[str]]:
        for number, (name, row) in enumerate((("open", "1"), ("done", "2"))):
            message = make_message(id=name, target_id=store.ada.id, seq=10**9 + number, activity_id=row)
            tx.mailbox.insert(message)
        tx.mailbox.settle("done", MessageOutcome("answered"), now)
        first = logged(tx, store, "1", message_id="open", source_id=store.bob.id)
        logged(tx, store, "2", message_id="done", created_at=now + MINUTE)
        logged(tx, store, "3", activity_type="agent_message", created_at=now + MINUTE)
        logged(tx, store, "4", workspace_id=store.bob.id)
        filters = [
            ActivityFilter(),
            ActivityFilter(oldest_first=True, limit=2),
            ActivityFilter(activity_type="a2a_receive"),
            ActivityFilter(source="agent"),
            ActivityFilter(source="canvas"),
            ActivityFilter(peer_id=store.bob.id),
            ActivityFilter(after_seq=first.seq, oldest_first=True),
            ActivityFilter(before=now + MINUTE),
            ActivityFilter(since=now + MINUTE),
            ActivityFilter(only_open=True),
            ActivityFilter(is_mail=True),
        ]
        return [[row.id for row in tx.activity.rows(store.ada.id, wanted)] for wanted in filters]

    assert await store.storage.write(work) == [
        ["3", "2", "1"],
        ["1", "2"],
        ["2", "1"],
        ["1"],
        ["3", "2"],
        ["1"],
        ["2", "3"],
        ["1"],
        ["3", "2"],
        ["1"],
        ["2", "1"],
    ]


async def test_a_cursor_is_known_only_in_its_own_log(store: Store) -> None:
    def work(tx: Transaction) -> list[int | None]:
        row = logged(tx, store, "a1")
        seen = (tx.activity.seq_of(store.ada.id, "a1"), tx.activity.seq_of(store.bob.id, "a1"))
        return [row.seq, *seen, tx.activity.seq_of(store.ada.id, "unknown")]

    seq, mine, theirs, unknown = await store.storage.write(work)
    assert (mine, theirs, unknown) == (seq, None, None)


async def test_events_and_steps_of_messages_are_one_log(store: Store, make_message: MakeMessage) -> None:
    def work(tx: Transaction) -> list[list[str]]:
        start = tx.events.last_id()
        at, org = store.ada.created_at, store.org.id
        tx.events.append(Event("WORKSPACE_ONLINE", org, store.bob.id, {"n": 1}, at))
        tx.mailbox.insert(make_message(id="m1", target_id=store.ada.id, seq=10**9))
        tx.events.append(Event("AGENT_MESSAGE", org, store.ada.id, {}, at))
        tx.mailbox.settle("m1", MessageOutcome("answered"), at)
        log = tx.events
        lists = [
            log.after(start, 10),
            log.after(start, 2),
            log.after(start, 10, workspace_id=store.ada.id),
            log.after(start, 10, types=["MESSAGE_ANSWERED", "WORKSPACE_ONLINE"]),
            log.after(start, 10, types=["UNKNOWN"]),
            log.after(start, 10, org_id="another"),
            log.newest(org, 2),
            log.newest(org, 10, workspace_id=store.bob.id),
            log.newest(org, 10, types=["MESSAGE_ACCEPTED"]),
            log.after(log.last_id(), 10),
        ]
        numbers = [event.id or 0 for event in lists[0]]
        assert numbers == sorted(numbers)
        assert log.last_id() == numbers[-1]
        return [[event.event_type for event in found] for found in lists]

    assert await store.storage.write(work) == [
        ["WORKSPACE_ONLINE", "MESSAGE_ACCEPTED", "AGENT_MESSAGE", "MESSAGE_ANSWERED", "A2A_RESPONSE"],
        ["WORKSPACE_ONLINE", "MESSAGE_ACCEPTED"],
        ["MESSAGE_ACCEPTED", "AGENT_MESSAGE", "MESSAGE_ANSWERED", "A2A_RESPONSE"],
        ["WORKSPACE_ONLINE", "MESSAGE_ANSWERED"],
        [],
        [],
        ["A2A_RESPONSE", "MESSAGE_ANSWERED"],
        ["WORKSPACE_ONLINE"],
        ["MESSAGE_ACCEPTED"],
        [],
    ]


async def test_living_tokens_are_those_neither_ended_nor_expired(store: Store) -> None:
    now = store.ada.created_at

    def token(token_id: str, workspace_id: str | None, **changes: Any) -> Token:
        facts: dict[str, Any] = {
            "id": token_id,
            "org_id": store.org.id,
            "kind": "org" if workspace_id is None else "workspace",
            "token_hash": f"hash-{token_id}",
            "prefix": token_id,
            "scopes": ["org.read"],
            "created_by": "user:ann",
            "created_at": now,
            "workspace_id": workspace_id,
        }
        return Token(**facts | changes)

    def work(tx: Transaction) -> list[list[str]]:
        tx.tokens.insert(token("t1", store.ada.id))
        tx.tokens.insert(token("t2", store.ada.id, expires_at=now + MINUTE))
        tx.tokens.insert(token("t3", None, recovery_hash="r"))
        tx.tokens.revoke("t1", now, "revoked")
        hers = [t.id for t in tx.tokens.living_of_workspace(store.ada.id, now)]
        later = [t.id for t in tx.tokens.living_of_workspace(store.ada.id, now + MINUTE)]
        tx.tokens.end_at("t3", now + MINUTE)
        kept = tx.tokens.get("t3")
        assert kept is not None
        assert (kept.expires_at, kept.recovery_hash) == (now + MINUTE, None)
        ours = [t.id for t in tx.tokens.living_of_org(store.org.id, now)]
        return [hers, later, ours, [t.id for t in tx.tokens.living_of_org(store.org.id, now + MINUTE)]]

    assert await store.storage.write(work) == [["t2"], [], ["t3"], []]
