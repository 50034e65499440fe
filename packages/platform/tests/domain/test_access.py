"""The tree is the firewall: the rule against a slow and obvious one, on random trees."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain import access
from molecule_platform.domain.access import TreeMember

IDS = tuple("abcdefgh")
Tree = dict[str, TreeMember]


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Any parents at all: forests, cycles, parents of another organisation, removed parents."""
    return {
        name: TreeMember(
            name,
            org_id=draw(st.sampled_from(["one", "one", "two"])),
            parent_id=draw(st.sampled_from([*IDS, None])),
            isolated=draw(st.sampled_from([False, False, True])),
            removed=draw(st.sampled_from([False, False, False, True])),
        )
        for name in IDS
    }


def parents_of(tree: Tree) -> dict[str, str | None]:
    return {name: member.parent_id for name, member in tree.items()}


def is_above(upper: str, lower: str, tree: Tree) -> bool:
    at: str | None = lower
    for _ in range(access.MAX_DEPTH):
        at = tree[at].parent_id if at is not None else None
        if at == upper:
            return True
    return False


def obvious_rule(caller: TreeMember, target: TreeMember, tree: Tree, granted: bool) -> tuple[bool, str]:
    lines = [
        (target.removed, False, "removed"),
        (caller.org_id != target.org_id, False, "org"),
        (caller.id == target.id, True, "self"),
        (caller.isolated or target.isolated, False, "isolated"),
        (caller.parent_id == target.parent_id, True, "sibling"),
        (is_above(target.id, caller.id, tree), True, "ancestor"),
        (is_above(caller.id, target.id, tree), True, "descendant"),
        (granted, True, "grant"),
    ]
    return next(((allowed, rule) for holds, allowed, rule in lines if holds), (False, "denied"))


@given(trees(), st.sampled_from(IDS), st.sampled_from(IDS), st.booleans())
def test_the_first_line_of_the_table_that_matches_decides(
    tree: Tree, caller: str, target: str, granted: bool
) -> None:
    verdict = access.judge(tree[caller], tree[target], parents_of(tree), granted)
    allowed, rule = obvious_rule(tree[caller], tree[target], tree, granted)
    assert verdict.allowed == allowed
    # Inside a cycle a sibling may be above as well: both lines allow it.
    in_a_cycle = is_above(caller, caller, tree) or is_above(target, target, tree)
    assert verdict.rule == rule or in_a_cycle
    assert verdict.reason


@given(trees(), st.sampled_from(IDS))
def test_a_subtree_is_the_root_and_whatever_has_it_above(tree: Tree, root: str) -> None:
    found = access.subtree(root, parents_of(tree))
    assert found[0] == root
    assert sorted(found) == sorted({root} | {name for name in IDS if is_above(root, name, tree)})


@given(trees(), st.sampled_from(IDS))
def test_walking_up_ends_in_a_cycle_too(tree: Tree, name: str) -> None:
    chain = access.ancestors(name, parents_of(tree))
    assert name not in chain
    assert len(chain) == len(set(chain))


def line_of(length: int) -> Tree:
    names = [f"w{number}" for number in range(length)]
    return {
        name: TreeMember(name, "one", names[number - 1] if number else None)
        for number, name in enumerate(names)
    }


@pytest.mark.parametrize(("depth", "allowed"), [(32, True), (33, False)])
def test_the_walk_up_the_tree_is_32_steps_long(depth: int, allowed: bool) -> None:
    line = line_of(40)
    assert access.judge(line[f"w{depth}"], line["w0"], parents_of(line)).allowed is allowed


@pytest.mark.parametrize(
    ("caller", "target", "relation"),
    [
        ("lead", "lead", "self"),
        ("lead", "root", "parent"),
        ("leaf", "root", "ancestor"),
        ("root", "lead", "child"),
        ("root", "leaf", "descendant"),
        ("lead", "other", "sibling"),
        ("root", "island", "sibling"),
        ("leaf", "other", "none"),
    ],
)
def test_each_relation_has_its_name(caller: str, target: str, relation: str) -> None:
    parents = {"root": None, "island": None, "lead": "root", "other": "root", "leaf": "lead"}
    tree = {name: TreeMember(name, "one", parent) for name, parent in parents.items()}
    assert access.relation_between(tree[caller], tree[target], parents) == relation


def test_a_grant_opens_what_the_tree_keeps_apart_but_not_isolation() -> None:
    leaf, other = TreeMember("leaf", "one", "lead"), TreeMember("other", "one", "else")
    assert access.judge(leaf, other, {}, granted=True).relation == "grant"
    assert access.judge(leaf, replace(other, isolated=True), {}, granted=True).rule == "isolated"


def test_a_refusal_names_both_sides_and_says_why() -> None:
    verdict = access.judge(TreeMember("leaf", "one", "lead"), TreeMember("other", "one", "else"), {})
    assert verdict.reason == "leaf and other have different parents and neither is an ancestor of the other"


def test_the_steps_end_with_the_rule_that_decides() -> None:
    parents = {"root": None, "a": "root", "b": "a", "other": None, "c": "other"}
    members = {name: access.TreeMember(name, "org", parent) for name, parent in parents.items()}
    for caller, target in (("a", "a"), ("a", "b"), ("b", "root"), ("root", "other"), ("b", "c")):
        verdict = access.judge(members[caller], members[target], parents)
        looked_at = access.steps(members[caller], members[target], parents)
        assert [step.rule for step in looked_at if step.matched] == [verdict.rule]
        assert looked_at[-1].detail == verdict.reason


def test_the_common_ancestor_is_the_nearest_that_both_are_or_are_below() -> None:
    parents = {"root": None, "a": "root", "b": "root", "c": "b", "other": None}
    assert access.common_ancestor("a", "c", parents) == "root"
    assert access.common_ancestor("b", "c", parents) == "b"
    assert access.common_ancestor("c", "c", parents) == "c"
    assert access.common_ancestor("a", "other", parents) is None
