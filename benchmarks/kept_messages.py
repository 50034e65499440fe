"""Cost of requests with 1,000,000 kept messages against 10,000, over HTTP.

Two platforms run side by side and take turns, so that a busy machine slows both. Each gets one message the
usual way, with all the rows that it leaves, and these rows are copied under other ids and numbers. The rare
activity is older than all of them.
"""

import functools
import http.client
import itertools
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import figure, turns
from scripts import live_platform

FEW, MANY = 10_000, 1_000_000
PAGE = 20
ROUNDS = 100
MOST = 1.25
RARE_TYPE = "task_update"
# The tables with rows of a message. A copy has ids that end in its number, and numbers so far apart.
TABLES = ("messages", "message_transitions", "activity_logs")
NUMBERS_EACH = 16


@dataclass
class Served:
    """A running platform, its agent, and a connection to it."""

    platform: live_platform.LivePlatform
    agent_id: str
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    @functools.cached_property
    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.platform.port, timeout=60)

    def get(self, path: str) -> bytes:
        """The whole answer to a request of the administrator."""
        return self._answer("GET", path, b"")

    def send(self) -> bytes:
        """Send a new message without waiting for its answer."""
        said = {
            "messageId": f"message {next(self.numbers)} of",
            "role": "ROLE_USER",
            "parts": [{"text": "hi"}],
        }
        request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": said}}
        return self._answer("POST", f"/workspaces/{self.agent_id}/a2a", json.dumps(request).encode())

    def _answer(self, method: str, path: str, body: bytes) -> bytes:
        headers = {"Authorization": f"Bearer {self.platform.admin_token()}", "Prefer": "respond-async"}
        self._connection.request(method, path, body, headers | {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        text = answer.read()
        assert answer.status < 300, text
        return text

    def rare_page(self) -> bytes:
        """A page of activity, all of it older than the messages."""
        page = self.get(f"/workspaces/{self.agent_id}/activity?type={RARE_TYPE}&limit={PAGE}")
        assert len(json.loads(page)) == PAGE
        return page


ASKED: dict[str, Callable[[Served], bytes]] = {
    "/metrics": lambda served: served.get("/metrics"),
    "page of rare activity": Served.rare_page,
    "send": Served.send,
    "page of messages": lambda served: served.get(f"/workspaces/{served.agent_id}/messages?limit={PAGE}"),
    "page of events": lambda served: served.get(f"/events?limit={PAGE}"),
}


def _figure(name: str) -> figure.Figure:
    few, many = _medians()[name]
    limits = f"median of {ROUNDS} turns, wall, SQLite, {many * 1e3:.2f} ms against {few * 1e3:.2f} ms"
    return figure.Figure(f"{name}, {MANY:,} / {FEW:,} kept", many / few, "x", figure.Ceiling(MOST), limits)


def metrics() -> figure.Figure:
    """A scrape of all figures."""
    return _figure("/metrics")


def rare_activity() -> figure.Figure:
    """A page of activity of a type of which there is little."""
    return _figure("page of rare activity")


def send() -> figure.Figure:
    """A new message."""
    return _figure("send")


def message_page() -> figure.Figure:
    """The newest messages of a workspace."""
    return _figure("page of messages")


def event_page() -> figure.Figure:
    """The newest events of the organisation."""
    return _figure("page of events")


@functools.cache
def _medians() -> dict[str, tuple[float, float]]:
    """The median times of each request, with few messages and with many."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        few, many = (_serve(stack, folder / str(count), count) for count in (FEW, MANY))
        return {name: _take_turns(ask, few, many) for name, ask in ASKED.items()}


def _take_turns(ask: Callable[[Served], bytes], few: Served, many: Served) -> tuple[float, float]:
    for _ in range(10):
        ask(few)
        ask(many)
    rounds = [(_seconds(ask, few), _seconds(ask, many)) for _ in range(ROUNDS)]
    return statistics.median(one[0] for one in rounds), statistics.median(one[1] for one in rounds)


def _seconds(ask: Callable[[Served], bytes], served: Served) -> float:
    began = time.perf_counter()
    ask(served)
    return time.perf_counter() - began


def _serve(stack: ExitStack, data_dir: Path, count: int) -> Served:
    data_dir.mkdir()
    (data_dir / "molecule.toml").write_text("RATE_LIMIT = 0\n")
    with live_platform.running(data_dir, "--no-demo") as platform:
        agent_id = _answer_one(platform)
    with closing(sqlite3.connect(data_dir / "molecule.db")) as database, database:
        for table in TABLES:
            _copy(database, table, count - 1)
        database.execute("UPDATE counters SET value = ? WHERE name = 'messages-answered'", (count,))
        drawn = f"value + {NUMBERS_EACH} * {count}"
        database.execute(f"UPDATE counters SET value = {drawn} WHERE name = 'log'")
    return Served(stack.enter_context(live_platform.running(data_dir, "--no-demo")), agent_id)


def _answer_one(platform: live_platform.LivePlatform) -> str:
    """Let an agent log rare activity, then answer one message from its inbox; return the agent's id."""
    with closing(http.client.HTTPConnection("127.0.0.1", platform.port, timeout=30)) as connection:
        agent_id, token = turns.joined(connection, "agent", platform.admin_token())
        for _ in range(PAGE):
            turns.post(connection, f"/workspaces/{agent_id}/activity", {"activity_type": RARE_TYPE}, token)
        served = Served(platform, agent_id)
        served.send()
        inbox = f"/workspaces/{agent_id}/inbox"
        [item] = turns.post(connection, f"{inbox}/lease", {}, token)["messages"]
        answer = {"lease_token": item["lease"]["token"], "text": "hello"}
        turns.post(connection, f"{inbox}/{item['message_id']}/answer", answer, token)
        return agent_id


def _copy(database: sqlite3.Connection, table: str, count: int) -> None:
    """Add copies of the rows that belong to the one message."""
    named = database.execute("SELECT id, activity_id FROM messages ORDER BY seq LIMIT 1").fetchone()
    found = database.execute(f"SELECT * FROM {table}")
    columns = [column[0] for column in found.description]
    rows = [row for row in found.fetchall() if not set(named).isdisjoint(row)]
    for row in rows:
        chosen = [_expression(name, value, named) for name, value in zip(columns, row, strict=True)]
        database.execute(
            f"WITH RECURSIVE copies(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM copies LIMIT ?)"
            f" INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(chosen)} FROM copies",
            (count, *row),
        )


def _expression(name: str, value: Any, named: Sequence[str]) -> str:
    if value in named:
        return "substr(?, 1, 24) || printf('%012x', number)"
    if name == "message_ref":
        return "? || number"
    return f"? + {NUMBERS_EACH} * number" if name in ("seq", "event_id") else "?"


if __name__ == "__main__":
    print(figure.table([metrics(), rare_activity(), send(), message_page(), event_page()]))
