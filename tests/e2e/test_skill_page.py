"""A skill author tries an agent on the development page, in a real browser."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from packages.skills.tests.cli.commands import Dev, dev, project, write_agent
from scripts import repository
from tests.e2e.browsing import chromium_path, keep_screenshot


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return project(tmp_path)


@pytest.fixture
def served(root: Path) -> Iterator[Dev]:
    with dev(root) as one:
        yield one


def until_result(page: Page, text: str) -> None:
    expect(page.locator("#result")).to_have_text(text)


@pytest.mark.slow  # a real browser
def test_an_author_fills_the_form_answers_a_question_and_sees_the_artifact(
    root: Path, served: Dev, page: Page
) -> None:
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.goto(served.url)
    assert "token" not in page.url
    expect(page.locator("#agent")).to_have_text("greeter 0.1.0")

    page.fill("#skill-ask [name=topic]", "tea")
    page.click("#skill-ask button[type=submit]")
    expect(page.locator("#asking")).to_contain_text("What about tea?")
    keep_screenshot(page, "skill-question.png")
    page.fill("#asking [name=answer]", "green")
    page.click("#asking button[type=submit]")
    until_result(page, "GREEN")
    expect(page.locator("a.artifact")).to_have_text("answer.txt")
    expect(page.locator("#runs")).to_contain_text("ask · succeeded")
    keep_screenshot(page, "skill-result.png")
    with page.expect_download() as download:
        page.click("a.artifact")
    assert Path(str(download.value.path())).read_text() == "green"

    # A run that waits can be cancelled.
    page.fill("#skill-ask [name=topic]", "coffee")
    page.click("#skill-ask button[type=submit]")
    expect(page.locator("#asking")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#run")).to_contain_text("cancelled")

    # A save changes the page without a reload; an error shows its line.
    write_agent(root, greeting="Servus")
    page.wait_for_timeout(1200)
    page.fill("#skill-greet [name=name]", "Ada")
    page.click("#skill-greet button[type=submit]")
    until_result(page, "Servus, Ada!")
    (root / "agent.py").write_text("class Agent(:\n")
    expect(page.locator("#problem")).to_contain_text("agent.py:1")
    keep_screenshot(page, "skill-problem.png")
    assert problems == []


@pytest.mark.slow  # two starts and a real browser
def test_past_runs_and_their_results_are_shown_after_a_restart(root: Path, page: Page) -> None:
    with dev(root) as served:
        served.invoke("greet", name="Ada")
    with dev(root) as served:
        page.goto(served.url)
        page.locator("#runs button").first.click()
        until_result(page, "Hello, Ada!")


@pytest.mark.slow  # it is the time that is measured
def test_the_first_answer_takes_at_most_twenty_seconds(tmp_path: Path) -> None:
    if chromium_path() is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    done = subprocess.run(
        [sys.executable, "-m", "scripts.first_answer", str(tmp_path)],
        cwd=repository.ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
