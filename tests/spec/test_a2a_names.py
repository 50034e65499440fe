"""Every name of every operation at both kinds of strict door: served in its own version, and in no other."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from molecule_agent import A2AServer
from tests.spec.platforms import Engine, Platform

CONTRACT = Path(__file__).parents[2] / "contracts" / "a2a"
OPERATIONS: list[dict[str, Any]] = json.loads((CONTRACT / "operations.json").read_text())
VERSIONS: list[dict[str, Any]] = json.loads((CONTRACT / "versions.json").read_text())
# An operation that is known is done, or says what is wrong with the request or that it is switched off.
KNOWN = {
    "done",
    "INVALID_PARAMS",
    "TASK_NOT_FOUND",
    "PUSH_NOTIFICATION_NOT_SUPPORTED",
    "UNSUPPORTED_OPERATION",
}


@pytest.fixture
def engine() -> Engine:
    """Names do not depend on where tasks are kept."""
    return "sqlite"


@dataclass(frozen=True)
class Door:
    """Where an agent is asked, and what is shown there."""

    url: str
    headers: dict[str, str]

    def ask(self, verb: str, path: str, version: str, body: Any = None, query: str = "") -> requests.Response:
        headers = self.headers | ({"A2A-Version": version} if version else {})
        url = f"{self.url}{path}{query}"
        return requests.request(verb, url, json=body, headers=headers, timeout=30, allow_redirects=False)

    def rpc(self, method: str, version: str, params: Any = None, query: str = "") -> requests.Response:
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        return self.ask("POST", "", version, body, query)


@pytest.fixture(params=["standard door", "bare agent"])
def door(request: pytest.FixtureRequest) -> Iterator[Door]:
    """The standard door of the platform, and an agent's own."""
    if request.param == "standard door":
        platform: Platform = request.getfixturevalue("platform")
        workspace_id = platform.join("named").workspace_id
        yield Door(f"{platform.url}/agents/{workspace_id}", platform.headers())
        return
    server = A2AServer("named", "/a2a/inbound", lambda _payload: "hi", host="127.0.0.1")
    server.start_in_background()
    yield Door(f"http://127.0.0.1:{server.port}", {})
    server.stop()


def outcome(answer: requests.Response) -> str:
    """What came of a request: `done`, or the reason why nothing did."""
    body: Any = answer.json()
    error: Any = body.get("error")
    if error is None:
        return "done"
    if isinstance(error, str):
        return error
    assert answer.status_code in (200, 400, 404), answer.text
    return error.get("data", error.get("details"))[0]["reason"]


def paths(row: dict[str, Any], member: str) -> list[tuple[str, str]]:
    path = row[member].replace("{id}", "none").replace("{cid}", "config")
    return [(verb, path + slash) for verb in row["verbs"] for slash in ("", "/")]


def test_every_method_is_known_in_its_version_and_in_no_other(door: Door) -> None:
    for row in OPERATIONS:
        new, old = row["method_1_0"], row["method_0_3"]
        assert outcome(door.rpc(new, "1.0")) in KNOWN, new
        assert outcome(door.rpc(new, "0.3")) == "METHOD_NOT_FOUND", new
        assert outcome(door.rpc(new, "")) == "VERSION_NOT_SUPPORTED", new
        if old is not None:
            assert outcome(door.rpc(old, "")) in KNOWN, old
            assert outcome(door.rpc(old, "0.3")) in KNOWN, old
            assert outcome(door.rpc(old, "1.0")) == "METHOD_NOT_FOUND", old
        for method in filter(None, (new, old)):
            assert outcome(door.rpc(method, "9.9")) == "VERSION_NOT_SUPPORTED", method
    assert outcome(door.rpc("tasks/list", "")) == "METHOD_NOT_FOUND"


def test_the_platform_path_knows_every_method_and_takes_a_new_one_without_a_version(
    platform: Platform,
) -> None:
    door = Door(f"{platform.url}/workspaces/{platform.join('named').workspace_id}/a2a", platform.headers())
    for row in OPERATIONS:
        for method, own, other in ((row["method_1_0"], "1.0", "0.3"), (row["method_0_3"], "0.3", "1.0")):
            if method is not None:
                for version in (own, ""):
                    assert outcome(door.rpc(method, version)) in KNOWN, (method, version)
                assert outcome(door.rpc(method, other)) == "METHOD_NOT_FOUND", method
                assert outcome(door.rpc(method, "9.9")) == "VERSION_NOT_SUPPORTED", method


def test_every_path_is_known_in_its_version_and_in_no_other(door: Door) -> None:
    for row in OPERATIONS:
        for verb, path in paths(row, "path_1_0"):
            body: Any = None if verb in ("GET", "DELETE") else {}
            assert outcome(door.ask(verb, path, "1.0", body)) in KNOWN, (verb, path)
            assert outcome(door.ask(verb, path, "", body)) == "VERSION_NOT_SUPPORTED", (verb, path)
            assert outcome(door.ask(verb, path, "0.3", body)) == "METHOD_NOT_FOUND", (verb, path)
        for verb, path in paths(row, "path_0_3") if row["path_0_3"] else ():
            body: Any = None if verb in ("GET", "DELETE") else {}
            for version in ("", "0.3"):
                assert outcome(door.ask(verb, path, version, body)) in KNOWN, (verb, path)
            assert outcome(door.ask(verb, path, "1.0", body)) == "METHOD_NOT_FOUND", (verb, path)
            assert outcome(door.ask(verb, path, "9.9", body)) == "VERSION_NOT_SUPPORTED", (verb, path)


@pytest.mark.parametrize("place", ["header", "query"])
def test_the_table_of_versions_holds_wherever_the_version_is_named(door: Door, place: str) -> None:
    codes = {-32601: "METHOD_NOT_FOUND", -32009: "VERSION_NOT_SUPPORTED"}
    for case in VERSIONS:
        known = case["method"] != "company/dance"
        in_query = f"?A2A-Version={case['version']}" if place == "query" else ""
        answer = door.rpc(case["method"], "" if in_query else case["version"], query=in_query)
        expected = codes.get(case["strict"], "INVALID_PARAMS" if known else "METHOD_NOT_FOUND")
        assert outcome(answer) == expected, case


@pytest.mark.parametrize("path", ["/.well-known/agent-card.json", "/.well-known/agent.json"])
def test_a_card_can_be_kept_at_both_its_places(door: Door, path: str) -> None:
    for slash in ("", "/"):
        card = door.ask("GET", path + slash, "")
        assert (card.status_code, "max-age=60" in card.headers["Cache-Control"]) == (200, True)
        assert card.headers["Last-Modified"].endswith("GMT")
        assert card.headers["ETag"].startswith('"')
        head = door.ask("HEAD", path + slash, "")
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["Content-Length"] == str(len(card.content))
        for verb in ("GET", "HEAD"):
            kept = requests.request(
                verb,
                f"{door.url}{path}{slash}",
                headers=door.headers | {"If-None-Match": card.headers["ETag"]},
                timeout=30,
            )
            assert (kept.status_code, kept.content) == (304, b"")
