"""The outer wall: other pages, traces, documents, figures."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from molecule_platform.web.pipeline.route_table import TABLE
from tests.spec.platforms import Engine, Platform, Share
from tests.spec.scripted_agent import ScriptedAgent

CONSOLE = "https://console.example"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def walled(share: Share, engine: Engine, tmp_path: Path) -> Iterator[Platform]:
    """A platform that one other page may use."""
    origins = f"{CONSOLE}, https://other.example"
    with share(engine, CORS_ORIGINS=origins, MOLECULE_A2A_HOLD_SECONDS=5).new_org(tmp_path) as platform:
        yield platform


def test_a_listed_page_is_told_that_it_may_and_a_stranger_is_told_nothing(walled: Platform) -> None:
    asked = {"Access-Control-Request-Method": "PATCH", "Origin": CONSOLE}
    may = walled.call("OPTIONS", "/workspaces", "", headers=asked)
    assert (may.status_code, may.headers["Access-Control-Allow-Origin"]) == (204, CONSOLE)
    assert "PATCH" in may.headers["Access-Control-Allow-Methods"]
    assert "Idempotency-Key" in may.headers["Access-Control-Allow-Headers"]
    strange = walled.call("OPTIONS", "/workspaces", "", headers=asked | {"Origin": "https://evil.example"})
    assert "Access-Control-Allow-Origin" not in strange.headers


def test_answers_are_readable_for_listed_pages_and_our_own_only(walled: Platform) -> None:
    for origin, readable in ((CONSOLE, True), (walled.url, True), ("https://evil.example", False)):
        headers = walled.call("GET", "/workspaces", headers={"Origin": origin}).headers
        assert ("Access-Control-Allow-Origin" in headers) is readable
        assert headers["Vary"] == "Origin"


def test_a_bearer_is_never_refused_because_of_its_origin(walled: Platform) -> None:
    """The original client sends the platform's URL as its origin with every call."""
    for origin in ("https://evil.example", "null", walled.url):
        assert walled.call("GET", "/workspaces", headers={"Origin": origin}).status_code == 200


def test_a_trace_is_carried_on_to_the_agent(walled: Platform, agent: ScriptedAgent) -> None:
    made = walled.create("Ada")
    body = {"id": made["id"], "url": agent.url(), "agent_card": {"name": "Ada"}}
    walled.ok("POST", "/registry/register", made["connection"]["auth_token"], json=body)
    sent = walled.send(made["id"], "hi", headers={"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"})
    assert sent.status_code == 200
    carried = agent.received[0][0]["traceparent"]
    assert re.fullmatch(rf"00-{TRACE}-[0-9a-f]{{16}}-01", carried)
    assert "00f067aa0ba902b7" not in carried


def test_the_document_lists_every_route_and_is_for_members_only(platform: Platform) -> None:
    document = platform.ok("GET", "/openapi.json")
    listed = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert listed == {(route.method, route.path) for route in TABLE}
    assert platform.call("GET", "/openapi.json", "").status_code == 401


def test_the_document_is_also_a_page_that_loads_nothing(platform: Platform) -> None:
    page = platform.call("GET", "/docs")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "/workspaces/{id}/pause" in page.text
    assert "<script" not in page.text


def test_the_version_tells_what_can_be_used(platform: Platform) -> None:
    told = platform.ok("GET", "/version")
    assert (told["api"], told["a2a"]) == ("1", ["1.0", "0.3"])
    known = {"inbox", "delegations", "long-poll", "access-explain", "events-replay", "task-stream"}
    assert set(told["features"]) == known | {"message-tree"}


def counted(platform: Platform) -> float:
    """How often a workspace was shown."""
    figure = 'molecule_http_requests_total{method="GET",path="/workspaces/{id}",status="200"} '
    return float(platform.call("GET", "/metrics").text.partition(figure)[2].partition("\n")[0] or 0)


def test_the_figures_are_for_whoever_may_read_them_and_name_routes_by_template(platform: Platform) -> None:
    made = platform.create("Ada")
    before = counted(platform)
    platform.ok("GET", f"/workspaces/{made['id']}")
    assert counted(platform) == before + 1
    figures = platform.call("GET", "/metrics")
    assert figures.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    for name in ("molecule_messages{", "molecule_loop_last_tick_seconds{", "python_info{"):
        assert name in figures.text
    assert made["id"] not in figures.text
    assert platform.call("GET", "/metrics", made["connection"]["auth_token"]).status_code == 403


def test_the_loops_tell_how_they_do(platform: Platform) -> None:
    loops = platform.ok("GET", "/admin/liveness")["subsystems"]
    assert {"dispatcher", "lease-reaper", "liveness", "retention"} <= set(loops)
    assert all(loop["ok"] for loop in loops.values())


def test_an_api_path_never_redirects(platform: Platform) -> None:
    for path in ("/workspaces/", "/health/", "/nowhere/", "/auth/login/"):
        answer = requests.get(platform.url + path, allow_redirects=False, timeout=30)
        assert not 300 <= answer.status_code < 400
