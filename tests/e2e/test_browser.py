"""A person opens the printed link and works with the demo organisation in a real browser."""

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from molecule_platform.testing import servers
from tests.e2e.browsing import fresh_link, keep_screenshot
from tests.e2e.platform_process import PlatformProcess


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    """The platform with its demo organisation, as `make up` starts it."""
    folder = tmp_path_factory.mktemp("demo")
    platform = PlatformProcess(servers.free_port(), folder / "data", flags=("--demo",))
    platform.start()
    yield platform
    assert platform.stop() == 0


def printed_link(demo: PlatformProcess) -> str:
    """The link on the screen that `molecule up` printed."""
    deadline = time.monotonic() + 30
    while not (found := re.search(r"http\S+/auth/login\?code=\S+", demo.log.read_text())):
        assert time.monotonic() < deadline, demo.log.read_text()
        time.sleep(0.05)
    return found[0]


@pytest.mark.slow  # a real browser and three agent processes start
def test_a_person_signs_in_talks_to_the_lead_and_pauses_an_agent(demo: PlatformProcess, page: Page) -> None:
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(printed_link(demo))
    for name in ("lead", "researcher", "writer"):
        expect(page.get_by_test_id(f"agent-{name}")).to_have_attribute("data-status", "online")
    expect(page.get_by_test_id("connection")).to_contain_text("live")
    assert "/auth/login" not in page.url

    page.get_by_test_id("agent-lead").click()
    page.get_by_test_id("chat-input").fill("Tell me about tea")
    page.get_by_test_id("chat-input").press("Enter")
    expect(page.get_by_test_id("chat-log")).to_contain_text("Camellia sinensis")
    keep_screenshot(page, "chat.png")

    page.get_by_test_id("agent-writer").click()
    page.get_by_test_id("pause").click()
    expect(page.get_by_test_id("agent-writer")).to_have_attribute("data-status", "paused")
    keep_screenshot(page, "paused.png")
    page.get_by_test_id("resume").click()
    # The agent's process ended with the pause; its supervisor starts it again.
    expect(page.get_by_test_id("agent-writer")).to_have_attribute("data-status", "online", timeout=30_000)
    assert problems == []


def test_a_status_change_made_elsewhere_appears_by_itself(demo: PlatformProcess, page: Page) -> None:
    page.goto(fresh_link(demo))
    researcher = page.get_by_test_id("agent-researcher")
    expect(researcher).to_have_attribute("data-status", "online")
    expect(page.get_by_test_id("connection")).to_contain_text("live")
    rows = demo.ok("GET", "/workspaces")
    workspace_id = next(row["id"] for row in rows if row["name"] == "researcher")
    demo.ok("POST", f"/workspaces/{workspace_id}/pause")
    expect(researcher).to_have_attribute("data-status", "paused")
    demo.ok("POST", f"/workspaces/{workspace_id}/resume")
    expect(researcher).to_have_attribute("data-status", "online", timeout=30_000)


def test_the_page_is_used_by_keyboard_alone(demo: PlatformProcess, page: Page) -> None:
    page.goto(fresh_link(demo))
    expect(page.get_by_test_id("agent-lead")).to_have_attribute("data-status", "online")
    page.get_by_role("button", name=re.compile("^lead,")).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("chat-input")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("chat-input")).not_to_be_visible()


def test_a_used_link_says_how_to_get_another(demo: PlatformProcess, page: Page, browser: Browser) -> None:
    link = fresh_link(demo)
    page.goto(link)
    expect(page.get_by_test_id("agent-lead")).to_be_visible()
    context = browser.new_context()
    second = context.new_page()
    second.goto(link)
    expect(second.get_by_text("molecule login-url").first).to_be_visible()
    context.close()


def test_it_works_in_the_dark(demo: PlatformProcess, browser: Browser) -> None:
    context = browser.new_context(color_scheme="dark", viewport={"width": 1360, "height": 820})
    page = context.new_page()
    page.goto(fresh_link(demo))
    expect(page.get_by_test_id("agent-lead")).to_be_visible()
    page.get_by_test_id("agent-lead").click()
    page.get_by_test_id("chat-input").fill("Tell me about tea")
    page.get_by_test_id("chat-input").press("Enter")
    expect(page.get_by_test_id("chat-log")).to_contain_text("Camellia sinensis")
    keep_screenshot(page, "dark.png")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    channels = [int(channel) for channel in re.findall(r"\d+", background)[:3]]
    assert max(channels) < 80
    context.close()
