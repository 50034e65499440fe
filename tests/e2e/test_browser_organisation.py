"""A person works with an organisation of many agents in a real browser, on a desktop and on a phone."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.e2e import organisations
from tests.e2e.browsing import keep_screenshot
from tests.e2e.organisations import BigOrganisation
from tests.e2e.platform_process import PlatformProcess

DESKTOP, PHONE = (1280, 720), (390, 760)
TEAMS = ("research", "writing", "support")
SMALLEST_PX = 10.5
LAYOUTS = "performance.getEntriesByName('canvas-layout').length"

# The names that a person can read now: whole, inside the window, large enough, with nothing on top of them.
READABLE = """(smallest) => [...document.querySelectorAll('[data-testid^="agent-"]')].flatMap((agent) => {
  const name = agent.querySelector('[data-testid="name"]');
  const { left, top, right, bottom, width } = name.getBoundingClientRect();
  const isInside = left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight;
  const isWhole = name.scrollWidth <= name.clientWidth || getComputedStyle(name).display === 'inline';
  const zoom = name.offsetWidth ? width / name.offsetWidth : 1;
  const isLarge = parseFloat(getComputedStyle(name).fontSize) * zoom >= smallest;
  const isOnTop = agent.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2));
  return isInside && isWhole && isLarge && isOnTop ? [name.textContent] : [];
})"""

SCROLL_ENDS = """() => {
  window.scrollEnded = false;
  document.querySelector('[role=tree]').addEventListener('scrollend', () => { window.scrollEnded = true; });
}"""

# Which boxes of the graph the page touches from now on.
WATCH = """() => {
  window.touched = new Set();
  new MutationObserver((changes) => changes.forEach(({ target }) => {
    const element = target instanceof Element ? target : target.parentElement;
    const node = element.closest('.react-flow__node');
    window.touched.add(node ? node.dataset.id : element.closest('[class]').className);
  })).observe(document.querySelector('.org-graph'),
    { subtree: true, childList: true, attributes: true, characterData: true });
}"""


@pytest.fixture(scope="module")
def forty(canvas_platform: PlatformProcess) -> BigOrganisation:
    """A director, three leads and 36 more: 32 online, five of them busy, eight that have not joined."""
    forty = organisations.make(canvas_platform, "forty", TEAMS, 12)
    for place, name in enumerate(forty.ids):
        if place % 5 != 4:
            task = "Reading the papers on tea" if place % 7 == 0 else ""
            forty.join(name, current_task=task, active_tasks=int(place % 7 == 0))
    return forty


@pytest.fixture(scope="module")
def three_hundred(canvas_platform: PlatformProcess) -> BigOrganisation:
    return organisations.make(canvas_platform, "three-hundred", [f"team{n}" for n in range(10)], 29)


@contextmanager
def opened(browser: Browser, organisation: BigOrganisation, size: tuple[int, int]) -> Generator[Page]:
    """The organisation on a screen of this size, drawn and live."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]})
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(organisation.login_link())
    expect(page.get_by_test_id("connection")).to_contain_text("live")
    expect(page.get_by_test_id("agent-director")).to_be_visible()
    yield page
    assert problems == []
    context.close()


def readable(page: Page) -> set[str]:
    return set(page.evaluate(READABLE, SMALLEST_PX))


def test_on_a_desktop_the_first_picture_has_the_root_and_every_name_of_forty(
    browser: Browser, forty: BigOrganisation
) -> None:
    with opened(browser, forty, DESKTOP) as page:
        keep_screenshot(page, "forty.png")
        assert readable(page) == set(forty.ids)


def test_on_a_phone_the_first_picture_has_the_root_and_two_pages_down_every_name_was_there(
    browser: Browser, forty: BigOrganisation
) -> None:
    with opened(browser, forty, PHONE) as page:
        keep_screenshot(page, "forty-narrow.png")
        seen = readable(page)
        assert "director" in seen
        page.get_by_test_id("agent-director").focus()
        for _action in range(2):
            page.evaluate(SCROLL_ENDS)
            page.keyboard.press("PageDown")
            page.wait_for_function("() => window.scrollEnded")
            seen |= readable(page)
        assert seen == set(forty.ids)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_test_id("fold-all").click()
        assert readable(page) == {"director", *(f"{team}-lead" for team in TEAMS)}
        keep_screenshot(page, "forty-narrow-folded.png")


def test_a_folded_team_is_one_box_that_says_how_its_agents_are(
    browser: Browser, forty: BigOrganisation
) -> None:
    with opened(browser, forty, DESKTOP) as page:
        fold = page.get_by_test_id("fold-research-lead")
        fold.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_test_id("agent-research-agent-01")).to_have_count(0)
        expect(page.get_by_test_id("agent-writing-agent-01")).to_have_count(1)
        expect(fold).to_be_focused()
        counts = page.get_by_test_id("agent-research-lead").get_by_test_id("counts")
        expect(counts).to_have_text("10 online1 busy3 waiting")
        assert len(readable(page)) == len(forty.ids) - 12
        keep_screenshot(page, "forty-folded.png")
        page.keyboard.press("Space")
        expect(page.get_by_test_id("agent-research-agent-01")).to_have_count(1)
        assert readable(page) == set(forty.ids)


def test_an_agent_inside_a_folded_team_is_found_by_typing_its_name(
    browser: Browser, forty: BigOrganisation
) -> None:
    for size in (DESKTOP, PHONE):
        with opened(browser, forty, size) as page:
            page.get_by_test_id("fold-all").click()
            expect(page.get_by_test_id("agent-writing-agent-07")).to_have_count(0)
            page.keyboard.press("/")
            page.keyboard.type("agent-07")
            keep_screenshot(page, f"search-{size[0]}.png")
            expect(page.get_by_role("option")).to_have_count(3)
            page.keyboard.press("ArrowDown")
            page.keyboard.press("Enter")
            expect(page.get_by_test_id("panel")).to_contain_text("writing-agent-07")
            page.keyboard.press("Escape")
            expect(page.get_by_test_id("panel")).to_have_count(0)
            assert "writing-agent-07" in readable(page)
            keep_screenshot(page, f"found-{size[0]}.png")


def test_the_list_on_a_phone_is_a_tree_for_the_keyboard(browser: Browser, forty: BigOrganisation) -> None:
    with opened(browser, forty, PHONE) as page:
        page.get_by_test_id("agent-director").focus()
        page.keyboard.press("ArrowDown")
        lead = page.get_by_role("treeitem", expanded=True).nth(1)
        expect(lead).to_be_focused()
        page.keyboard.press("ArrowLeft")
        expect(page.get_by_role("treeitem")).to_have_count(len(forty.ids) - 12)
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("treeitem")).to_have_count(len(forty.ids))
        for name, reached in (("support-agent-10", "chat-input"), ("support-agent-12", "tab-About")):
            page.get_by_test_id(f"agent-{name}").focus()
            page.keyboard.press("Enter")
            expect(page.get_by_test_id("panel")).to_contain_text(name)
            # One that nobody has joined yet first says how to.
            expect(page.get_by_test_id(reached)).to_be_focused()
            page.keyboard.press("Escape")
            expect(page.get_by_test_id(f"agent-{name}")).to_be_focused()


def test_show_all_really_shows_all(browser: Browser, three_hundred: BigOrganisation) -> None:
    with opened(browser, three_hundred, DESKTOP) as page:
        keep_screenshot(page, "three-hundred.png")
        assert readable(page) == {"director", *(f"team{n}-lead" for n in range(10))}
        page.get_by_test_id("fold-all").click()
        page.mouse.wheel(0, -600)
        page.get_by_role("button", name="Show all agents").click()
        expect(page.locator(".agent-node")).to_have_count(len(three_hundred.ids))
        keep_screenshot(page, "three-hundred-open.png")
        outside = """[...document.querySelectorAll('.agent-node')].filter((node) => {
          const box = node.getBoundingClientRect();
          const room = document.querySelector('.org-graph').getBoundingClientRect();
          const isWide = box.left < room.left || box.right > room.right;
          return isWide || box.top < room.top || box.bottom > room.bottom;
        }).length"""
        page.wait_for_function(f"() => {outside} === 0")


def test_with_three_hundred_agents_a_status_change_reads_no_list_and_moves_no_box(
    browser: Browser, three_hundred: BigOrganisation
) -> None:
    name = "team4-agent-11"
    with opened(browser, three_hundred, DESKTOP) as page:
        page.get_by_test_id("fold-all").click()
        node = page.get_by_test_id(f"agent-{name}")
        expect(node).to_have_attribute("data-status", "awaiting_agent")
        page.wait_for_load_state("networkidle")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(path_of(request)))
        layouts: Any = page.evaluate(LAYOUTS)
        page.evaluate(WATCH)
        for step, status in (("pause", "paused"), ("resume", "awaiting_agent")):
            three_hundred.ok("POST", f"/workspaces/{three_hundred.ids[name]}/{step}")
            expect(node).to_have_attribute("data-status", status)
        assert page.evaluate(LAYOUTS) == layouts > 0
        # Its own box, and the counts of the teams it is in.
        changed = {three_hundred.ids[one] for one in (name, "team4-lead", "director")}
        assert set(page.evaluate("[...window.touched]")) == changed
        # Requests follow their event after the same short while: what the changes above had asked for would
        # be sent before the row of an agent that joins after them.
        joined = "team5-agent-01"
        row = f"/workspaces/{three_hundred.ids[joined]}"
        with page.expect_request(f"**{row}"):
            three_hundred.join(joined)
        assert asked == [row]


def test_an_agent_that_is_made_or_renamed_elsewhere_costs_one_row(
    browser: Browser, three_hundred: BigOrganisation
) -> None:
    with opened(browser, three_hundred, DESKTOP) as page:
        page.wait_for_load_state("networkidle")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(path_of(request)))
        body = {"name": "newcomer", "external": True, "parent_id": three_hundred.ids["director"]}
        made = three_hundred.ok("POST", "/workspaces", json=body)["id"]
        expect(page.get_by_test_id("agent-newcomer")).to_be_visible()
        three_hundred.ok("PATCH", f"/workspaces/{made}", json={"name": "regular"})
        expect(page.get_by_test_id("agent-regular")).to_be_visible()
        three_hundred.ok("DELETE", f"/workspaces/{made}?confirm=true")
        expect(page.get_by_test_id("agent-regular")).to_have_count(0)
        assert asked == [f"/workspaces/{made}"]


def path_of(request: Request) -> str:
    return "/" + request.url.split("/", 3)[3]
