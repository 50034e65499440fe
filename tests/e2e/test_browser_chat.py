"""A person talks with an agent that streams, asks back and can be stopped, in a real browser."""

from dataclasses import dataclass
from typing import Any

import pytest
import requests
from playwright.sync_api import Locator, Page, expect

from tests.e2e.browsing import fresh_link, keep_screenshot
from tests.e2e.platform_process import PlatformProcess

HARM = "<img src=x onerror='window.hurt=1'><script>window.hurt=1</script>"
MARKDOWN = [
    "## Tea\n\nThere are **two",
    "** kinds:\n\n- green\n- black\n\n",
    f"{HARM}\n\n[no](javascript:window.hurt=1) [yes](https://tea.example.org)\n\n",
    "```python\nprint('tea')\n```\n",
]


@dataclass
class Turn:
    """A message that the agent holds; the test says what the agent says, step by step."""

    agent: "Agent"
    item: dict[str, Any]

    def tell(self, verb: str, **body: Any) -> Any:
        path = f"/workspaces/{self.agent.id}/inbox/{self.item['message_id']}/{verb}"
        body["lease_token"] = self.item["lease"]["token"]
        return self.agent.platform.ok("POST", path, self.agent.token, json=body)

    def stream(self, text: str, *, first: bool = False) -> None:
        artifact = {"artifactId": "answer", "parts": [{"text": text}], "append": not first}
        self.tell("progress", artifact=artifact)


@dataclass
class Agent:
    """An agent without a loop of its own: it takes a message when the test says so."""

    platform: PlatformProcess
    id: str
    token: str
    name: str

    def take(self) -> Turn:
        body = {"limit": 1, "wait": 20}
        leased = self.platform.ok("POST", f"/workspaces/{self.id}/inbox/lease", self.token, json=body)
        return Turn(self, leased["messages"][0])


def joined(platform: PlatformProcess, name: str) -> Agent:
    """An agent that is online."""
    made = platform.ok("POST", "/workspaces", json={"name": name, "external": True, "role": "Talks"})["id"]
    body = {"id": made, "url": "", "agent_card": {"name": name}}
    answer = requests.post(f"{platform.url}/registry/register", json=body, timeout=30)
    return Agent(platform, made, answer.json()["auth_token"], name)


@pytest.fixture
def agent(canvas_platform: PlatformProcess, page: Page, request: pytest.FixtureRequest) -> Agent:
    """An agent that is online, with its conversation open on the page."""
    agent = joined(canvas_platform, f"agent-of-{request.node.name[5:30]}")
    page.goto(fresh_link(canvas_platform))
    open_agent(page, agent.name)
    return agent


def open_agent(page: Page, name: str) -> None:
    expect(page.get_by_test_id("connection")).to_contain_text("live")
    page.get_by_test_id(f"agent-{name}").click()
    expect(page.get_by_test_id("chat-input")).to_be_focused()


def write(page: Page, text: str) -> None:
    page.get_by_test_id("chat-input").fill(text)
    page.get_by_test_id("chat-input").press("Enter")


def log_of(page: Page) -> Locator:
    return page.get_by_test_id("chat-log")


def test_an_answer_grows_while_it_is_made_and_is_still_there_after_a_reload(page: Page, agent: Agent) -> None:
    write(page, "Tell me about tea")
    turn = agent.take()
    turn.tell("progress", text="Looking into the cupboard")
    expect(page.get_by_test_id("progress")).to_have_text("Looking into the cupboard")
    growing = page.get_by_test_id("growing")
    turn.stream(MARKDOWN[0], first=True)
    expect(growing).to_contain_text("There are **two")
    turn.stream(MARKDOWN[1])
    expect(growing.locator("strong")).to_have_text("two")
    expect(growing.locator("li")).to_have_text(["green", "black"])
    keep_screenshot(page, "chat-growing.png")
    for piece in MARKDOWN[2:]:
        turn.stream(piece)
    expect(growing.locator("pre")).to_have_text("print('tea')")
    turn.tell("ack")
    expect(growing).to_have_count(0)
    look_at_the_tea(page)
    keep_screenshot(page, "chat-answered.png")
    page.reload()
    open_agent(page, agent.name)
    look_at_the_tea(page)


def look_at_the_tea(page: Page) -> None:
    """The answer is there, as Markdown and without anything that runs."""
    log = log_of(page)
    expect(log.get_by_role("heading", name="Tea")).to_be_visible()
    expect(log.locator("pre")).to_have_text("print('tea')")
    expect(log).to_contain_text(HARM)
    assert "No text in the answer" not in log.inner_text()
    assert log.locator("img, script").count() == 0
    hrefs = log.locator("a").evaluate_all("links => links.map((link) => link.href)")
    assert hrefs == ["https://tea.example.org/"]
    assert page.evaluate("window.hurt") is None


def test_a_question_of_the_agent_is_answered_by_the_next_message(page: Page, agent: Agent) -> None:
    write(page, "How is the weather?")
    asked = agent.take()
    asked.tell("answer", text="In which city?", state="input-required")
    question = page.get_by_test_id("question")
    expect(question).to_contain_text("In which city?")
    expect(question).to_contain_text(f"{agent.name} asks")
    expect(page.get_by_test_id("send")).to_have_text("Answer")
    keep_screenshot(page, "chat-question.png")
    page.reload()
    open_agent(page, agent.name)
    expect(question).to_contain_text("In which city?")
    write(page, "Rome")
    answered = agent.take()
    assert answered.item["data"]["task_id"] == asked.item["data"]["task_id"]
    answered.tell("answer", text="Sunny in Rome.")
    expect(log_of(page)).to_contain_text("Sunny in Rome.")
    expect(page.get_by_test_id("send")).to_have_text("Send")


def test_stop_cancels_the_running_task_and_keeps_what_was_said(page: Page, agent: Agent) -> None:
    write(page, "Count to a million")
    turn = agent.take()
    turn.stream("one, two, three", first=True)
    expect(page.get_by_test_id("growing")).to_contain_text("one, two, three")
    keep_screenshot(page, "chat-running.png")
    page.get_by_test_id("stop").click()
    expect(page.get_by_test_id("stopped")).to_contain_text("Stopped.")
    expect(page.get_by_test_id("stop")).to_have_count(0)
    expect(page.get_by_test_id("chat-input")).to_be_focused()
    assert agent.platform.ok("GET", f"/messages/{turn.item['message_id']}")["status"] == "cancelled"
    keep_screenshot(page, "chat-stopped.png")
    page.reload()
    open_agent(page, agent.name)
    expect(page.get_by_test_id("stopped")).to_contain_text("Stopped.")
    expect(log_of(page)).to_contain_text("one, two, three")


def test_the_conversation_has_most_of_the_panel_also_on_a_phone(page: Page, agent: Agent) -> None:
    write(page, "A long story, please")
    agent.take().tell("answer", text="\n\n".join(f"Once upon a time, number {n}." for n in range(40)))
    expect(log_of(page)).to_contain_text("number 39.")
    for size in ((1280, 720), (390, 760)):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        panel = page.get_by_test_id("panel").bounding_box()
        log = log_of(page).bounding_box()
        assert panel is not None
        assert log is not None
        assert log["height"] >= panel["height"] * 0.6
        expect(page.get_by_test_id("send")).to_be_in_viewport(ratio=1)
        keep_screenshot(page, f"chat-long-{size[0]}.png")


def test_the_tree_of_a_message_tells_who_asked_whom_how_long_and_what_failed(
    page: Page, agent: Agent, canvas_platform: PlatformProcess
) -> None:
    helper, grump = (joined(canvas_platform, f"{name}-of-the-tree") for name in ("helper", "grump"))
    write(page, "What do the others say?")
    turn = agent.take()
    for peer in (helper, grump):
        body = {"target_id": peer.id, "task": "Say something"}
        canvas_platform.ok("POST", f"/workspaces/{agent.id}/delegations", agent.token, json=body)
    tree = page.get_by_test_id("message-tree")
    tree.locator("summary").click()
    rows = tree.locator(".message-tree-row")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text(f"admin → {agent.name} working")
    helper.take().tell("answer", text="Hello")
    grump.take().tell("fail", error="Not my work today.", retryable=False)
    turn.tell("answer", text="One of them says hello.")
    # What is open is asked for again until it has ended.
    expect(rows.first).to_contain_text("answered")
    expect(rows.first).to_contain_text("waited")
    expect(rows.first).to_contain_text("worked")
    below = tree.locator(".message-tree-list .message-tree-list > li")
    expect(below).to_have_count(2)
    expect(below.first).to_contain_text(f"{agent.name} → {helper.name} answered")
    expect(below.last).to_contain_text(f"{agent.name} → {grump.name} failed")
    expect(below.last).to_contain_text("Not my work today.")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 760})
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        keep_screenshot(page, f"message-tree-{width}.png")
    page.reload()
    open_agent(page, agent.name)
    page.get_by_test_id("message-tree").locator("summary").press("Enter")
    expect(page.locator(".message-tree-row")).to_have_count(3)
