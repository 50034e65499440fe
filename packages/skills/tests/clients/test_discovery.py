"""Discovery: one order of results, in memory and from the registry; bad cards are reported."""

import json
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molecule_skill.card import AgentCard, CardSkill
from molecule_skill.clients import ranking
from molecule_skill.clients.ranking import AgentQuery
from molecule_skill.discovery import DiscoveredAgent, InMemoryDiscovery, RegistryDiscovery
from molecule_skill.errors import A2AError
from packages.skills.tests.clients.agents import Forecaster, Planner

QUERIES: list[dict[str, Any]] = [
    {},
    {"limit": 1},
    {"tags": ("WEATHER",)},
    {"tags": ("nothing", "travel")},
    {"tags": ("nothing",)},
    {"capability": "forecasts"},
    {"capability": "flights"},
    {"skill": "TOMORROW"},
    {"skill": "tomo"},
    {"query": "forecaster"},
    {"query": "tomorrow"},
    {"query": "plan"},
    {"query": "trips"},
    {"query": "the weather"},
    {"query": "weather flights"},
    {"query": "a"},
    {"query": "e", "tags": ("europe", "travel"), "limit": 2},
]


class Registry:
    """The platform's route, with the rows that a test gives it."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.problems: list[dict[str, Any]] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.status = 200
        self.url = ""


@contextmanager
def registry() -> Generator[Registry]:
    served = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests.append((self.path, {name.lower(): text for name, text in self.headers.items()}))
            fresh = self.headers.get("if-none-match") == '"1"'
            body = json.dumps(
                {"agents": served.rows, "problems": served.problems, "next_cursor": None}
            ).encode()
            self.send_response(304 if fresh else served.status)
            self.send_header("etag", '"1"')
            self.send_header("content-length", "0" if fresh else str(len(body)))
            self.end_headers()
            if not fresh:
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
async def both() -> AsyncIterator[tuple[InMemoryDiscovery, RegistryDiscovery, Registry]]:
    agents = [Planner(), Forecaster()]
    with registry() as served:
        served.rows = [
            {"id": str(place), "name": agent.name, "url": served.url, "card": agent.card().to_a2a()}
            for place, agent in enumerate(agents)
        ]
        remote = RegistryDiscovery(served.url, "own-token")
        yield InMemoryDiscovery(agents), remote, served
        await remote.close()


@pytest.mark.parametrize("filters", QUERIES, ids=str)
async def test_both_give_the_same_agents_in_the_same_order(
    both: tuple[InMemoryDiscovery, RegistryDiscovery, Registry], filters: dict[str, Any]
) -> None:
    local, remote, _ = both
    here, there = await local.find_agents(**filters), await remote.find_agents(**filters)
    assert [agent.name for agent in here] == [agent.name for agent in there]
    assert [agent.card for agent in here] == [agent.card for agent in there]


async def test_the_best_match_comes_first_then_the_name(
    both: tuple[InMemoryDiscovery, RegistryDiscovery, Registry],
) -> None:
    local, _, _ = both
    assert [one.name for one in await local.find_agents()] == ["forecaster", "planner"]
    assert [one.name for one in await local.find_agents(query="plan")] == ["planner"]
    assert [one.name for one in await local.find_agents(query="weather")] == ["forecaster"]
    assert await local.find_agents(query="weather flights") == []


@pytest.mark.parametrize("limit", [0, 101, -1])
async def test_a_limit_outside_1_to_100_is_refused(
    both: tuple[InMemoryDiscovery, RegistryDiscovery, Registry], limit: int
) -> None:
    for client in both[:2]:
        with pytest.raises(ValueError, match="limit"):
            await client.find_agents(limit=limit)


async def test_an_agent_is_found_by_its_name(
    both: tuple[InMemoryDiscovery, RegistryDiscovery, Registry],
) -> None:
    for client in both[:2]:
        assert (await client.get_agent("planner")).card.name == "planner"
        with pytest.raises(KeyError, match="nobody"):
            await client.get_agent("nobody")


async def test_one_request_brings_all_cards_and_is_kept(
    both: tuple[InMemoryDiscovery, RegistryDiscovery, Registry], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, remote, served = both
    for _ in range(3):
        await remote.find_agents(tags=("weather",), query="tomorrow")
    ((path, headers),) = served.requests
    assert parse_qs(urlsplit(path).query) == {"tag": ["weather"], "q": ["tomorrow"], "limit": ["100"]}
    assert headers["authorization"] == "Bearer own-token"
    monkeypatch.setattr("molecule_skill.clients.discoveries.time.monotonic", lambda: 1e9)
    assert [one.name for one in await remote.find_agents(tags=("weather",), query="tomorrow")] == [
        "forecaster"
    ]
    assert served.requests[-1][1]["if-none-match"] == '"1"'


async def test_a_card_that_cannot_be_read_is_reported_and_hides_nobody(
    both: tuple[InMemoryDiscovery, RegistryDiscovery, Registry],
) -> None:
    _, remote, served = both
    served.rows += [{"id": "9", "name": "odd", "url": "", "card": {"skills": "many", "url": "x"}}]
    served.problems = [{"id": "8", "name": "older", "problem": "skills is not a list"}]
    assert len(await remote.find_agents(query=None, limit=100)) == 2
    assert [one.name for one in remote.problems] == ["odd", "older"]

    class Broken:
        name = "broken"

        def card(self) -> AgentCard:
            raise ValueError("no card today")

    local = InMemoryDiscovery([Broken(), Forecaster(), {"name": 3}])
    assert [one.name for one in await local.find_agents()] == ["forecaster"]
    assert [(one.name, one.problem) for one in local.problems][0] == ("broken", "no card today")
    assert len(local.problems) == 2


async def test_a_registry_that_refuses_is_an_error(
    both: tuple[InMemoryDiscovery, RegistryDiscovery, Registry],
) -> None:
    _, remote, served = both
    served.status = 503
    with pytest.raises(A2AError) as raised:
        await remote.find_agents()
    assert raised.value.status_code == 503


words = st.sampled_from(["data", "text", "map", "plan", "x"])


def found(name: str, text: str, skills: list[CardSkill]) -> DiscoveredAgent:
    return DiscoveredAgent(name, f"http://{name}", AgentCard(name=name, description=text, skills=skills))


def card_skill(name: str, tag: str) -> CardSkill:
    return CardSkill(id=name, name=name, tags=[tag])


cards = st.builds(
    found,
    words,
    words,
    st.lists(st.builds(card_skill, words, words), max_size=2),
)


@given(st.lists(cards, max_size=6), words, st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_the_order_does_not_depend_on_the_order_of_the_data(
    agents: list[DiscoveredAgent], query: str, chance: Any
) -> None:
    agent_query = AgentQuery(query=query, limit=100)
    first = [(one.name, one.card) for one in ranking.rank(agents, agent_query)]
    chance.shuffle(agents)
    again = [(one.name, one.card) for one in ranking.rank(agents, agent_query)]
    assert [name for name, _ in first] == [name for name, _ in again]
