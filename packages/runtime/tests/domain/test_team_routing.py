"""Routing in a team is deterministic: the same team and task always give the same order."""

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from molecule_runtime.domain.peers import peer_of
from molecule_runtime.domain.team_routing import best, build_team_routing_payload, rank, score
from molecule_wire import JSON, JSONObject

WORDS = ["write", "tests", "python", "research", "market", "deploy"]


def member(id: str, name: str = "", **row: Any) -> JSONObject:
    return {"id": id, "name": name or id, "status": "online", **row}


def card(*skills: str, tags: tuple[str, ...] = (), description: str = "") -> JSONObject:
    listed: list[JSON] = [{"id": name, "name": name, "tags": list(tags)} for name in skills]
    return {"name": "x", "description": description, "skills": listed}


texts = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)
members = st.builds(
    member,
    id=st.sampled_from("abcdefgh"),
    name=st.sampled_from(["A", "B", ""]),
    status=st.sampled_from(["online", "offline", "degraded", "paused"]),
    role=texts,
    active_tasks=st.integers(0, 4),
    agent_card=st.builds(card, texts, description=texts),
)
teams = st.lists(members, max_size=6, unique_by=lambda row: str(row["id"]))


@given(teams, texts, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(
    team: list[JSONObject], task: str, shuffle: random.Random
) -> None:
    shuffled = list(team)
    shuffle.shuffle(shuffled)
    assert build_team_routing_payload(team, task) == build_team_routing_payload(shuffled, task)


@given(teams, texts)
def test_members_come_by_score_then_name_then_id(team: list[JSONObject], task: str) -> None:
    ranked = rank([peer_of(row) for row in team], task)
    keys = [(-one.score, one.peer.name, one.peer.id) for one in ranked]
    assert keys == sorted(keys)
    assert sorted(one.peer.id for one in ranked) == sorted(str(row["id"]) for row in team)


@given(members, texts)
def test_one_more_task_in_work_costs_one_point(row: JSONObject, task: str) -> None:
    busier = row | {"active_tasks": int(str(row["active_tasks"])) + 1}
    assert score(peer_of(busier), task) == score(peer_of(row), task) - 1


@given(teams, texts)
def test_the_member_chosen_without_asking_is_the_only_best(team: list[JSONObject], task: str) -> None:
    ranked = rank([peer_of(row) for row in team], task)
    chosen = best(ranked)
    if chosen is None:
        assert not ranked or ranked[0].score <= 0 or ranked[0].score == ranked[1].score
    else:
        assert [one for one in ranked if one.score >= chosen.score] == [chosen]


def test_each_place_has_its_weight() -> None:
    task = "write tests"
    assert score(peer_of(member("a", agent_card=card("write"))), task) == 3 + 2
    assert score(peer_of(member("a", agent_card=card("other", tags=("write",)))), task) == 2 + 2
    assert score(peer_of(member("a", role="write")), task) == 2 + 2
    assert score(peer_of(member("a", agent_card=card(description="write tests"))), task) == 2 + 2
    assert score(peer_of(member("a", status="degraded")), task) == 0
    assert score(peer_of(member("a", status="offline", active_tasks=2)), task) == -7


def test_a_category_names_who_takes_the_task() -> None:
    team = [member("a", agent_card=card("security review")), member("b", role="Auditor", status="offline")]
    ranked = rank([peer_of(row) for row in team], "Security review", {"security": ["auditor"]})
    assert [one.peer.id for one in ranked] == ["b", "a"]


class TestPayload:
    def test_a_preferred_member_gets_the_task(self) -> None:
        assert build_team_routing_payload([member("a")], "t", "a") == {
            "success": True,
            "action": "delegate_to_preferred_member",
            "preferred_member_id": "a",
            "task": "t",
        }

    def test_a_stranger_is_not_preferred(self) -> None:
        payload = build_team_routing_payload([member("a", agent_card=card("write"))], "t", "z")
        assert payload == {
            "success": False,
            "error": "'z' is not a member of this team",
            "task": "t",
            "members": [{"id": "a", "name": "a", "status": "online", "skills": ["write"], "score": 2}],
        }

    def test_without_a_team_the_task_is_ones_own(self) -> None:
        assert build_team_routing_payload([], "t", "z") == {
            "success": False,
            "error": "No team members available. Handle this task yourself.",
            "task": "t",
            "members": [],
        }

    def test_otherwise_a_member_is_chosen(self) -> None:
        payload = build_team_routing_payload([member("a"), member("b", role="t")], "t")
        assert (payload["success"], payload["action"], payload["task"]) == (True, "choose_member", "t")
        assert [one["id"] for one in payload["members"]] == ["b", "a"]  # pyright: ignore

    def test_a_card_may_be_json_in_a_text(self) -> None:
        assert peer_of(member("a", agent_card='{"skills":[{"id":"s"}]}')).skill_names == ("s",)
        assert not peer_of(member("a", agent_card="{broken")).has_card
