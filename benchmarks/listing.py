"""What a page of the tree costs with 10,000 workspaces against 100 in the same shape, over HTTP.

Two platforms run side by side and take turns, so that a busy machine slows both. The shape: a root, a tenth
of the workspaces as departments below it, one of them with another tenth as teams and half of all as their
members, and the rest below the other departments. The caller leads that department: a page of its peers
comes from everywhere in the tree.
"""

import asyncio
import functools
import http.client
import json
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks import figure
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.people import Org
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.workspaces import registration
from molecule_platform.storage.sqlite import SqliteStorage
from molecule_wire import ids
from scripts import live_platform

FEW, MANY = 100, 10_000
PAGE = 50
ROUNDS = 60
LONGEST_RATIO = 2.0
NOW = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
CARD = {
    "name": "Agent",
    "description": "Does its part",
    "skills": [{"id": "part", "name": "Part", "tags": ["work"]}],
}


@dataclass(frozen=True)
class Caller:
    """The lead of the department, and its token."""

    id: str
    token: str


@dataclass(frozen=True)
class Served:
    """A running platform with a tree, and who asks it."""

    platform: live_platform.LivePlatform
    lead: Caller

    def seconds(self, path: str, token: str) -> float:
        """How long one request takes until its whole answer is there; the page must be full."""
        began = time.perf_counter()
        self._connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = self._connection.getresponse()
        body = answer.read()
        took = time.perf_counter() - began
        assert answer.status == 200, body
        assert len(json.loads(body)) == PAGE
        return took

    @functools.cached_property
    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.platform.port, timeout=30)


Ask = Callable[[Served], float]

ASKED: dict[str, Ask] = {
    "list": lambda served: served.seconds(f"/workspaces?limit={PAGE}", served.platform.admin_token()),
    "list of a lead": lambda served: served.seconds(f"/workspaces?limit={PAGE}", served.lead.token),
    "peers": lambda served: served.seconds(
        f"/registry/{served.lead.id}/peers?limit={PAGE}", served.lead.token
    ),
}


def measure_list() -> figure.Figure:
    """A page of the organisation, as its operator sees it."""
    return _figure("list")


def measure_list_of_a_lead() -> figure.Figure:
    """A page of the organisation, as one of its workspaces sees it."""
    return _figure("list of a lead")


def measure_peers() -> figure.Figure:
    """A page of the peers of a workspace."""
    return _figure("peers")


def _figure(name: str) -> figure.Figure:
    few, many = _medians()[name]
    times = f"{many * 1000:.1f} ms against {few * 1000:.1f} ms"
    limits = f"median of {ROUNDS} turns, wall, limit={PAGE}, SQLite, {times}"
    called = f"page of {name}, {MANY:,} / {FEW} workspaces"
    return figure.Figure(called, many / few, "x", figure.Ceiling(LONGEST_RATIO), limits)


@functools.cache
def _medians() -> dict[str, tuple[float, float]]:
    """The median times of a page for each question, with few workspaces and with many."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        few, many = (_serve(stack, folder / str(count), count) for count in (FEW, MANY))
        return {name: _take_turns(ask, few, many) for name, ask in ASKED.items()}


def _take_turns(ask: Ask, few: Served, many: Served) -> tuple[float, float]:
    for served in (few, many):
        ask(served)
    turns = [(ask(few), ask(many)) for _ in range(ROUNDS)]
    return statistics.median(turn[0] for turn in turns), statistics.median(turn[1] for turn in turns)


def _serve(stack: ExitStack, data_dir: Path, count: int) -> Served:
    data_dir.mkdir()
    (data_dir / "molecule.toml").write_text("RATE_LIMIT = 0\n")
    lead = asyncio.run(_furnished(data_dir / "molecule.db", count))
    return Served(stack.enter_context(live_platform.running(data_dir, "--no-demo")), lead)


async def _furnished(path: Path, count: int) -> Caller:
    storage = await SqliteStorage.open(path, _ring)
    try:
        return await storage.write(lambda tx: _furnish(tx, count))
    finally:
        await storage.close()


def _ring(subjects: Sequence[str]) -> None:
    assert not subjects


def _furnish(tx: Transaction, count: int) -> Caller:
    org = Org(ids.uuid7(), "default", "Default organisation", NOW)
    tx.people.insert_org(org)
    tree = list(_tree(org.id, count))
    assert len(tree) == count
    for workspace in tree:
        tx.workspaces.insert(workspace)
    lead = tree[1]
    return Caller(lead.id, registration.mint(tx, lead, "system:benchmark", NOW).secret)


def _tree(org_id: str, count: int) -> Iterator[Workspace]:
    made = 0

    def member(parent: Workspace | None) -> Workspace:
        nonlocal made
        made += 1
        # Pages go by age: an order that mixes the levels makes each page come from all of them.
        at = NOW + timedelta(seconds=made * 7919 % count)
        parent_id = None if parent is None else parent.id
        card = CARD | {"name": f"Agent {made}"}
        return Workspace(
            str(uuid.uuid4()), org_id, f"Agent {made}", at, at, parent_id=parent_id, agent_card=card
        )

    root = member(None)
    departments = [member(root) for _ in range(count // 10)]
    teams = [member(departments[0]) for _ in range(count // 10)]
    yield from (root, *departments, *teams)
    yield from (member(teams[number % len(teams)]) for number in range(count // 2))
    others = departments[1:]
    yield from (member(others[number % len(others)]) for number in range(count - made))


if __name__ == "__main__":
    print(figure.table([measure_list(), measure_list_of_a_lead(), measure_peers()]))
