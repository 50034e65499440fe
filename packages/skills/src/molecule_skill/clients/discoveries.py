"""Discovery of agents: of this process, and of the platform's registry; the same order for the same cards."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode

from pydantic import ValidationError

from molecule_skill.card import EXTENSION_URI, AgentCard
from molecule_skill.clients import ranking
from molecule_skill.clients.ranking import AgentQuery
from molecule_skill.clients.remote_errors import remote_error, unreachable
from molecule_skill.discovery import DiscoveredAgent, DiscoveryClient
from molecule_wire import JSON, JSONObject, jsontext

CACHE_SECONDS = 30.0
TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class CardProblem:
    """An agent whose card cannot be read: it is reported, and not among what was found."""

    name: str
    problem: str
    url: str = ""


class InMemoryDiscovery(DiscoveryClient):
    """Finds agents of this process: instances or classes of `A2AAgent`, cards, or `DiscoveredAgent`s."""

    def __init__(self, agents: Iterable[Any]) -> None:
        self.problems: list[CardProblem] = []
        self._agents: list[DiscoveredAgent] = []
        for agent in agents:
            try:
                self._agents.append(_discovered(agent))
            except (ValueError, TypeError, AttributeError, KeyError) as problem:
                name = getattr(agent, "name", None)
                self.problems.append(CardProblem(str(name or type(agent).__name__), _first_line(problem)))

    async def find_agents(
        self,
        *,
        tags: Sequence[str] = (),
        capability: str | None = None,
        skill: str | None = None,
        query: str | None = None,
        limit: int = 10,
    ) -> list[DiscoveredAgent]:
        """See `DiscoveryClient`."""
        return ranking.rank(self._agents, AgentQuery(tags, capability, skill, query, limit))

    async def get_agent(self, name: str) -> DiscoveredAgent:
        """See `DiscoveryClient`."""
        for agent in self._agents:
            if agent.name == name:
                return agent
        raise KeyError(f"unknown agent: {name!r}; known are {sorted(agent.name for agent in self._agents)}")


class RegistryDiscovery(DiscoveryClient):
    """Finds the agents that this workspace may reach, by one request with their cards in the answer.

    Answers are kept for 30 s, then asked for again with their ETag. `problems` has the cards of the latest
    answer that could not be read.
    """

    def __init__(
        self, platform_url: str, token: str | Callable[[], str], *, allow_private: bool = True
    ) -> None:
        from molecule_skill.http_client import HttpClient

        self.problems: list[CardProblem] = []
        self._url = platform_url.rstrip("/")
        self._token = token
        self._http = HttpClient(allow_private=allow_private)
        self._kept: dict[str, tuple[float, str, JSONObject]] = {}

    async def find_agents(
        self,
        *,
        tags: Sequence[str] = (),
        capability: str | None = None,
        skill: str | None = None,
        query: str | None = None,
        limit: int = 10,
    ) -> list[DiscoveredAgent]:
        """See `DiscoveryClient`. Raises A2AError when the registry gives no answer."""
        agent_query = AgentQuery(tags, capability, skill, query, limit)
        named = (("capability", capability), ("skill", skill), ("q", query))
        params = [("tag", tag) for tag in tags] + [(name, text) for name, text in named if text is not None]
        # As many as there may be: the points of this side decide which come first.
        params.append(("limit", str(ranking.MAX_LIMIT)))
        return ranking.rank(self._read(await self._ask(params)), agent_query)

    async def get_agent(self, name: str) -> DiscoveredAgent:
        """See `DiscoveryClient`."""
        for agent in self._read(await self._ask([("q", name), ("limit", str(ranking.MAX_LIMIT))])):
            if agent.name == name:
                return agent
        raise KeyError(f"unknown agent: {name!r}; the registry has none of this name that you may reach")

    async def close(self) -> None:
        """Give the connections up."""
        await self._http.close()

    async def _ask(self, params: list[tuple[str, str]]) -> JSONObject:
        path = f"/registry/agents?{urlencode(params)}"
        kept = self._kept.get(path)
        now = time.monotonic()
        if kept is not None and now < kept[0]:
            return kept[2]
        token = self._token() if callable(self._token) else self._token
        headers = {"authorization": f"Bearer {token}", "accept": "application/json"}
        if kept is not None and kept[1]:
            headers["if-none-match"] = kept[1]
        try:
            reply = await self._http.send("GET", self._url + path, headers=headers, timeout=TIMEOUT_SECONDS)
        except (OSError, ValueError) as problem:
            raise unreachable(self._url, problem) from problem
        if reply.status == 304 and kept is not None:
            body, tag = kept[2], kept[1]
        else:
            body, tag = _object(reply.body), reply.headers.get("etag", "")
            if reply.status != 200:
                raise remote_error(self._url, reply.status, body)
        self._kept[path] = (now + CACHE_SECONDS, tag, body)
        return body

    def _read(self, body: JSONObject) -> list[DiscoveredAgent]:
        found, problems = list[DiscoveredAgent](), list[CardProblem]()
        for row in _objects(body.get("agents")):
            name, url = str(row.get("name") or ""), str(row.get("url") or "")
            try:
                found.append(DiscoveredAgent(name, url, _card(row.get("card"), name)))
            except (ValueError, TypeError) as problem:
                problems.append(CardProblem(name, _first_line(problem), url))
        for item in _objects(body.get("problems")):
            problems.append(
                CardProblem(str(item.get("name") or ""), str(item.get("problem") or "unreadable"))
            )
        self.problems = problems
        return found


def _discovered(value: Any) -> DiscoveredAgent:
    if isinstance(value, DiscoveredAgent):
        return value
    if isinstance(value, AgentCard):
        return DiscoveredAgent(value.name, f"local:{value.name}", value)
    if isinstance(value, Mapping):
        fields = cast("JSONObject", dict(cast("Mapping[str, Any]", value)))
        card = _card(fields, "")
        return DiscoveredAgent(card.name, str(fields.get("url") or f"local:{card.name}"), card)
    card = value.card()
    if not isinstance(card, AgentCard):
        raise TypeError("card() gave no AgentCard")
    return DiscoveredAgent(card.name, f"local:{card.name}", card)


def _card(card: JSON, name: str) -> AgentCard:
    """A card in its native form or in that of A2A. Raises ValueError."""
    if not isinstance(card, dict):
        raise ValueError("the card is no JSON object")
    fields: JSONObject = card if card.get("name") or not name else {**card, "name": name}
    skills = fields.get("skills", [])
    if not isinstance(skills, list) or not all(isinstance(one, dict) for one in skills):
        raise ValueError("skills: must be a list of objects")
    if not {"defaultInputModes", "supportedInterfaces", "url"} & fields.keys():
        return AgentCard.model_validate(fields)
    made, capabilities = AgentCard.from_a2a(fields), fields.get("capabilities")
    if isinstance(capabilities, dict) and EXTENSION_URI not in str(capabilities.get("extensions")):
        made = made.model_copy(update={"capabilities": capabilities})
    return made


def _object(body: bytes) -> JSONObject:
    try:
        value = jsontext.decode(body)
    except jsontext.NotJSON:
        return {}
    return value if isinstance(value, dict) else {}


def _objects(value: JSON) -> list[JSONObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _first_line(problem: BaseException) -> str:
    if isinstance(problem, ValidationError):
        return "; ".join(
            f"{'.'.join(map(str, one['loc'])) or 'card'}: {one['msg']}" for one in problem.errors()[:3]
        )
    return (str(problem) or type(problem).__name__).splitlines()[0]
