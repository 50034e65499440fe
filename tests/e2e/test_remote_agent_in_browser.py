"""A person watches a remote agent join: its badge, its card and its last messages are on the page."""

import re
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import Page, expect

from molecule_agent import InboundMessage, InboxDelivery, RemoteAgentClient
from molecule_platform.testing import servers
from tests.e2e.browsing import fresh_link, keep_screenshot
from tests.e2e.platform_process import PlatformProcess

CARD: Any = {
    "name": "Docs bot",
    "description": "Reads the documentation so that you do not have to.",
    "version": "2.3.1",
    "provider": {"organization": "Acme", "url": "https://acme.example.org"},
    "skills": [
        {"id": "find", "name": "Find a page", "description": "Names the page that answers a question."},
        {"id": "sum", "name": "Summarise", "description": "Says in three sentences what a page says."},
    ],
}
SCRIPT = "<img src=x onerror='window.hurt=1'><script>window.hurt=1</script>"
TURNED = "\u202egnp.exe"
HOSTILE: Any = {
    "name": SCRIPT + "N" * 3000,
    "description": TURNED + "D" * 20_000 + "\n" * 5000,
    "version": {"major": 1},
    "provider": ["not", "an", "object"],
    "documentationUrl": "javascript:window.hurt=1",
    "iconUrl": "https://tracker.invalid/pixel.png",
    "capabilities": "all of them",
    "supportedInterfaces": {"url": 7},
    "defaultInputModes": [None, 7, "M" * 5000],
    "skills": [
        None,
        7,
        ["a", "list"],
        {"name": SCRIPT, "description": {"deep": "object"}},
        *({"id": "same", "name": f"{TURNED} skill {n}", "description": "S" * 100} for n in range(1000)),
    ],
}
ISO = re.compile(r"^\d{4}-\d\d-\d\dT.*Z$")
INSIDE = "document.documentElement.scrollWidth <= window.innerWidth"


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    process = PlatformProcess(servers.free_port(), tmp_path_factory.mktemp("remote") / "data")
    process.start()
    yield process
    assert process.stop() == 0


@pytest.fixture
def problems(page: Page) -> list[str]:
    """What went wrong on the page so far."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    return found


def workspace(platform: PlatformProcess, name: str, **more: Any) -> str:
    return platform.ok("POST", "/workspaces", json={"name": name, "external": True, **more})["id"]


def answer(message: InboundMessage, client: RemoteAgentClient) -> str:
    return f"The page on {message.text} is lifecycle.md."


@contextmanager
def living(client: RemoteAgentClient) -> Generator[None]:
    """The agent's own loop, as its program runs it."""
    delivery = InboxDelivery(client, wait=2)
    loop = threading.Thread(target=client.run_agent_loop, args=(answer, delivery))
    with client:
        client.register()
        loop.start()
        yield
        client.stop()
        loop.join(30)
        assert not loop.is_alive()


@pytest.mark.slow  # a real browser and an agent that lives in it
def test_a_person_sees_the_badge_the_card_and_the_last_messages_of_an_agent_that_joins(
    platform: PlatformProcess, page: Page, problems: list[str], tmp_path: Path
) -> None:
    laptop = workspace(platform, "laptop", role="Knows the documentation")
    writer = workspace(platform, "writer", parent_id=laptop)
    page.goto(fresh_link(platform))
    node, panel = page.get_by_test_id("agent-laptop"), page.get_by_test_id("panel")
    expect(node.get_by_test_id("badge")).to_have_text("REMOTE", use_inner_text=True)
    node.click()
    expect(panel.get_by_test_id("badge")).to_have_text("REMOTE", use_inner_text=True)
    expect(panel.get_by_test_id("card")).to_contain_text('RemoteAgentClient.from_connection("hello.json")')
    expect(panel.get_by_test_id("last-received")).to_have_text("nothing yet. Write to it in the chat.")
    keep_screenshot(page, "remote-awaited.png")

    agent = RemoteAgentClient(laptop, platform.url, CARD, token_dir=tmp_path / "laptop")
    peer = RemoteAgentClient(writer, platform.url, {"name": "writer"}, token_dir=tmp_path / "writer")
    with living(agent), peer:
        expect(node).to_have_attribute("data-status", "online")
        expect(panel.get_by_test_id("card")).to_contain_text("Docs bot 2.3.1")
        expect(panel.get_by_test_id("card")).to_contain_text("Reads the documentation")
        page.get_by_text("2 skills: Find a page, Summarise").click()
        for told in ("Names the page that answers a question.", "JSONRPC 1.0", "streaming", "Acme"):
            expect(panel.get_by_test_id("card")).to_contain_text(told)
        keep_screenshot(page, "remote-card.png")
        page.get_by_text("2 skills: Find a page, Summarise").click()

        page.get_by_test_id("tab-Chat").click()
        page.get_by_test_id("chat-input").fill("pausing")
        page.get_by_test_id("chat-input").press("Enter")
        expect(panel.get_by_test_id("last-received")).to_contain_text("pausingfrom admin")
        expect(panel.get_by_test_id("last-said")).to_contain_text(
            "The page on pausing is lifecycle.md.to admin"
        )
        expect(node.get_by_test_id("said")).to_contain_text("The page on pausing is lifecycle.md.")

        peer.register()
        peer.ask_peer(laptop, "resuming")
        expect(panel.get_by_test_id("last-received")).to_contain_text("resumingfrom writer")
        expect(panel.get_by_test_id("last-said")).to_contain_text("The page on resuming")
        expect(panel.get_by_test_id("last-said").locator("time")).to_have_attribute("datetime", ISO)
        keep_screenshot(page, "remote-talk.png")

        agent.update_card({**CARD, "version": "2.4.0"})
        expect(panel.get_by_test_id("card")).to_contain_text("Docs bot 2.4.0")
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 390, "height": 760})
        assert page.evaluate(INSIDE)
        expect(page.get_by_test_id("send")).to_be_in_viewport(ratio=1)
        keep_screenshot(page, "remote-narrow-dark.png")
    assert problems == []


def test_a_card_that_means_harm_does_none(platform: PlatformProcess, page: Page, problems: list[str]) -> None:
    name = "W" * 200
    hostile = {"id": workspace(platform, name, role="R" * 200), "url": "", "agent_card": HOSTILE}
    registered = requests.post(f"{platform.url}/registry/register", json=hostile, timeout=30)
    assert registered.status_code == 200, registered.text
    page.goto(fresh_link(platform))
    page.get_by_test_id(f"agent-{name}").click()
    page.get_by_test_id("tab-About").click()
    card = page.get_by_test_id("card")
    expect(card).to_contain_text("1001 skills: <img src=x")
    keep_screenshot(page, "hostile.png")
    card.locator("summary").click()
    expect(card).to_contain_text("… and 961 skills more.")
    assert page.evaluate(INSIDE)
    assert card.locator("a").count() == 1  # the card itself; the script is no link
    assert card.locator("img, script").count() == 0
    keep_screenshot(page, "hostile-open.png")
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 760})
    assert page.evaluate(INSIDE)
    keep_screenshot(page, "hostile-narrow-dark.png")
    page.get_by_test_id("tab-Chat").click()
    expect(page.get_by_test_id("send")).to_be_in_viewport(ratio=1)
    assert page.evaluate(INSIDE)
    assert page.evaluate("window.hurt") is None
    assert problems == []
