"""The tree in SQL, on random trees, against slow and obvious ways to ask the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from molecule_platform.domain import access
from molecule_platform.domain.access import Relation
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.grants import AccessGrant
from molecule_platform.ports.people import Org
from molecule_platform.ports.storage import Transaction
from molecule_platform.ports.workspaces import PageCursor, Profile, WorkspaceFilter, WorkspaceMatch
from molecule_platform.storage.tables import lineage
from molecule_platform.storage.transaction import SqlTransaction

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeWorkspace
    from packages.platform.tests.storage.conftest import Store

PEERS: tuple[Relation, ...] = ("parent", "sibling", "child", "ancestor", "descendant", "grant")
BOUNDED = settings(
    max_examples=settings().max_examples // 6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
MINUTE = timedelta(minutes=1)
PICK = st.integers(0, 10**6)
PARENT = "Ada's id"


@dataclass(frozen=True)
class Step:
    """Something that an operator does to the tree; the numbers choose the workspaces."""

    kind: Literal["create", "move", "remove"]
    which: int
    where: int


STEPS = st.lists(
    st.builds(Step, st.sampled_from(["create", "create", "move", "remove"]), PICK, PICK), max_size=25
)


class Forest:
    """The living workspaces of a fresh organisation, beside what the store keeps of them."""

    def __init__(self, tx: Transaction, make_workspace: MakeWorkspace, named: str = "forest") -> None:
        self.tx, self._make = tx, make_workspace
        self.org = Org(str(uuid4()), f"{named}-{uuid4()}", named, make_workspace().created_at)
        self.members: dict[str, Workspace] = {}
        tx.people.insert_org(self.org)

    @property
    def parents(self) -> dict[str, str | None]:
        return {member.id: member.parent_id for member in self.members.values()}

    def grow(self, parent: int, **fields: Any) -> Workspace:
        choices = [None, *self.members]
        made = self._make(org_id=self.org.id, parent_id=choices[parent % len(choices)], **fields)
        self.tx.workspaces.insert(made)
        self.members[made.id] = made
        return made

    def move(self, which: int, where: int) -> None:
        member = list(self.members.values())[which % len(self.members)]
        below = access.subtree(member.id, self.parents)
        choices = [None, *(one for one in self.members if one not in below)]
        moved = member.changed(parent_id=choices[where % len(choices)])
        assert self.tx.workspaces.move(moved)
        self.members[member.id] = moved

    def remove(self, which: int) -> None:
        root = list(self.members)[which % len(self.members)]
        for member_id in reversed(access.subtree(root, self.parents)):
            assert self.tx.workspaces.update(self.members.pop(member_id).changed(status="removed"))

    def take(self, step: Step) -> None:
        if step.kind == "create" or not self.members:
            self.grow(step.where)
        elif step.kind == "move":
            self.move(step.which, step.where)
        else:
            self.remove(step.which)

    def lines(self) -> set[tuple[str, str, int]]:
        """Who is above whom, and how far, by walking up from each."""
        return {
            (above, member_id, distance)
            for member_id in self.members
            for distance, above in enumerate(access.ancestors(member_id, self.parents), 1)
        }


def kept_lines(tx: Transaction, forest: Forest) -> set[tuple[Any, ...]]:
    assert isinstance(tx, SqlTransaction)
    wanted = select(lineage.c.ancestor_id, lineage.c.descendant_id, lineage.c.distance, lineage.c.created_at)
    rows = tx.connection.execute(wanted).all()
    ours = [row for row in rows if row.descendant_id in forest.members]
    assert all(row.created_at == forest.members[row.descendant_id].created_at for row in ours)
    assert {row.ancestor_id for row in ours} <= set(forest.members)
    return {(row.ancestor_id, row.descendant_id, row.distance) for row in ours}


@BOUNDED
@given(steps=STEPS)
async def test_after_any_steps_the_lineage_is_what_walking_up_finds(
    store: Store, make_workspace: MakeWorkspace, steps: list[Step]
) -> None:
    def work(tx: Transaction) -> None:
        forest = Forest(tx, make_workspace)
        for step in steps:
            forest.take(step)
        lines = forest.lines()
        assert kept_lines(tx, forest) == lines
        for one in forest.members:
            assert tx.workspaces.ancestors(one) == access.ancestors(one, forest.parents)
            assert {w for w in forest.members if tx.workspaces.descends(one, w)} == {
                below for above, below, _ in lines if above == one
            }

    await store.storage.write(work)


@BOUNDED
@given(steps=STEPS)
async def test_a_subtree_is_the_living_each_after_its_parent(
    store: Store, make_workspace: MakeWorkspace, steps: list[Step]
) -> None:
    def work(tx: Transaction) -> None:
        forest = Forest(tx, make_workspace)
        for step in steps:
            forest.take(step)
        for root in forest.members:
            found = tx.workspaces.subtree(root)
            order = [member.id for member in found]
            assert found == [forest.members[one] for one in order]
            assert set(order) == set(access.subtree(root, forest.parents))
            assert order[0] == root
            assert all(order.index(w.parent_id or root) < order.index(w.id) for w in found[1:])

    await store.storage.write(work)


async def test_below_the_reach_of_the_access_rule_the_tree_still_holds(
    store: Store, make_workspace: MakeWorkspace
) -> None:
    def work(tx: Transaction) -> None:
        line = [store.ada]
        for _ in range(40):
            line.append(make_workspace(parent_id=line[-1].id))
            tx.workspaces.insert(line[-1])
        assert [one.id for one in tx.workspaces.subtree(store.ada.id)] == [one.id for one in line]
        assert tx.workspaces.descends(store.ada.id, line[-1].id)
        assert tx.workspaces.ancestors(line[-1].id) == [one.id for one in reversed(line[8:-1])]
        assert tx.workspaces.move(line[8].changed(parent_id=store.bob.id))
        assert not tx.workspaces.descends(store.ada.id, line[-1].id)
        assert tx.workspaces.descends(store.bob.id, line[-1].id)

    await store.storage.write(work)


async def test_a_move_from_an_old_version_changes_nothing(
    store: Store, make_workspace: MakeWorkspace
) -> None:
    leaf = make_workspace(parent_id=store.ada.id)

    def work(tx: Transaction) -> None:
        tx.workspaces.insert(leaf)
        assert not tx.workspaces.move(replace(leaf, parent_id=store.bob.id))
        assert tx.workspaces.ancestors(leaf.id) == [store.ada.id]

    await store.storage.write(work)


async def test_nothing_is_below_a_removed_workspace_or_an_unknown_one(store: Store) -> None:
    def work(tx: Transaction) -> None:
        assert tx.workspaces.update(store.ada.changed(status="removed"))
        assert tx.workspaces.subtree(store.ada.id) == tx.workspaces.subtree("unknown") == []
        assert not tx.workspaces.descends("unknown", store.ada.id)

    await store.storage.write(work)


# Reach


@dataclass(frozen=True)
class Seed:
    """One workspace of a random tree, and a grant that begins at it."""

    parent: int
    minutes: int
    isolated: bool
    removed: bool
    grant_to: int
    grant_holds: bool
    both_ways: bool


SEEDS = st.lists(
    st.builds(
        Seed,
        parent=PICK,
        minutes=st.integers(0, 3),
        isolated=st.sampled_from([False, False, False, True]),
        removed=st.sampled_from([False, False, False, True]),
        grant_to=PICK,
        grant_holds=st.booleans(),
        both_ways=st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


def planted(tx: Transaction, make_workspace: MakeWorkspace, seeds: list[Seed]) -> Forest:
    forest = Forest(tx, make_workspace)
    noon = forest.org.created_at
    for seed in seeds:
        forest.grow(seed.parent, isolated=seed.isolated, created_at=noon + seed.minutes * MINUTE)
    everyone = list(forest.members.values())
    for member, seed in zip(everyone, seeds, strict=True):
        target = everyone[seed.grant_to % len(everyone)]
        expiry = noon + (MINUTE if seed.grant_holds else -MINUTE)
        ends = (member.id, target.id, seed.both_ways, expiry)
        tx.grants.insert(AccessGrant(str(uuid4()), forest.org.id, *ends, "why", "user:ann", noon))
    for member, seed in zip(everyone, seeds, strict=True):
        if seed.removed and member.id in forest.members:
            forest.remove(list(forest.members).index(member.id))
    return forest


def allowed(tx: Transaction, caller: Workspace, forest: Forest) -> dict[str, Relation]:
    """What the rule says of each, one by one."""
    granted = tx.workspaces.granted_from(caller.id, forest.org.created_at)
    verdicts = {
        one.id: access.judge(caller.as_member(), one.as_member(), forest.parents, one.id in granted)
        for one in forest.members.values()
    }
    return {
        name: verdict.relation for name, verdict in verdicts.items() if verdict.allowed and name != caller.id
    }


def all_pages(
    tx: Transaction, caller: Workspace, limit: int, relations: tuple[Relation, ...], **more: Any
) -> list[WorkspaceMatch]:
    found: list[WorkspaceMatch] = []
    while True:
        wanted = WorkspaceFilter(limit, found[-1].place if found else None, **more)
        page = tx.workspaces.in_reach(caller, wanted, relations, caller.updated_at)
        assert len(page) <= limit
        found += page
        if len(page) < limit:
            return found


@BOUNDED
@given(seeds=SEEDS, limit=st.integers(1, 5))
async def test_the_pages_of_whom_one_may_call_are_exactly_whom_the_rule_allows(
    store: Store, make_workspace: MakeWorkspace, seeds: list[Seed], limit: int
) -> None:
    def work(tx: Transaction) -> None:
        forest = planted(tx, make_workspace, seeds)
        for caller in forest.members.values():
            expected = allowed(tx, caller, forest)
            found = all_pages(tx, caller, limit, PEERS)
            assert found == sorted(found, key=lambda one: one.place)
            assert [one.place.id for one in found] == list(dict.fromkeys(one.place.id for one in found))
            assert {one.place.id: one.relation for one in found} == expected
            with_itself = all_pages(tx, caller, limit, ("self", *PEERS))
            assert {one.place.id for one in with_itself} == {caller.id, *expected}
            for relation in PEERS:
                narrowed = all_pages(tx, caller, limit, (relation,))
                assert {one.place.id for one in narrowed} == {n for n, r in expected.items() if r == relation}

    await store.storage.write(work)


@BOUNDED
@given(seeds=SEEDS, limit=st.integers(1, 5))
async def test_the_pages_of_an_organisation_neither_repeat_nor_skip(
    store: Store, make_workspace: MakeWorkspace, seeds: list[Seed], limit: int
) -> None:
    def work(tx: Transaction) -> None:
        forest = planted(tx, make_workspace, seeds)
        found: list[WorkspaceMatch] = []
        while page := tx.workspaces.in_org(
            forest.org.id, WorkspaceFilter(limit, found[-1].place if found else None)
        ):
            found += page
        assert [one.place for one in found] == sorted(
            PageCursor(member.created_at, member.id) for member in forest.members.values()
        )

    await store.storage.write(work)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (WorkspaceFilter(9), ["Ada", "Bob", "Leaf"]),
        (WorkspaceFilter(9, statuses=("paused", "removed")), ["Leaf"]),
        (WorkspaceFilter(9, include_removed=True), ["Ada", "Bob", "Leaf", "Gone"]),
        (WorkspaceFilter(9, statuses=("removed",), include_removed=True), ["Gone"]),
        (WorkspaceFilter(2), ["Ada", "Bob"]),
        (WorkspaceFilter(9, parent_id=PARENT), ["Leaf"]),
        (WorkspaceFilter(9, parent_id=PARENT, include_removed=True), ["Leaf", "Gone"]),
        (WorkspaceFilter(1, parent_id=PARENT, include_removed=True), ["Leaf"]),
    ],
)
async def test_a_page_of_an_organisation_is_narrowed_by_what_is_wanted(
    store: Store, make_workspace: MakeWorkspace, wanted: WorkspaceFilter, names: list[str]
) -> None:
    wanted = replace(wanted, parent_id=store.ada.id) if wanted.parent_id else wanted

    def work(tx: Transaction) -> None:
        for minutes, (name, status) in enumerate((("Leaf", "paused"), ("Gone", "removed")), 1):
            at = store.ada.created_at + minutes * MINUTE
            tx.workspaces.insert(
                make_workspace(name=name, status=status, created_at=at, parent_id=store.ada.id)
            )

    await store.storage.write(work)

    def read(tx: Transaction) -> None:
        page = tx.workspaces.in_org(store.org.id, wanted)
        rows = tx.workspaces.many([one.place.id for one in page])
        assert sorted(rows[one.place.id].name for one in page) == sorted(names)

    await store.storage.read(read)


async def test_many_and_profiles_give_what_exists(store: Store) -> None:
    def work(tx: Transaction) -> None:
        assert tx.workspaces.many([store.ada.id, "unknown"]) == {store.ada.id: store.ada}
        assert tx.workspaces.profiles([store.ada.id, "unknown"]) == {
            store.ada.id: Profile(store.ada.id, "Ada", "", "awaiting_agent", None)
        }

    await store.storage.read(work)
