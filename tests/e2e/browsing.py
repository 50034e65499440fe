"""A real browser for tests, and the way of a person into the canvas."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.e2e.platform_process import PlatformProcess

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def chromium_path() -> str | None:
    """Where the Chromium of this machine is."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def chromium() -> Generator[Browser]:
    """The Chromium of this machine; without one the test is skipped."""
    path = chromium_path()
    if path is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


def fresh_link(platform: PlatformProcess) -> str:
    """A link that signs the administrator in, once."""
    return platform.ok("POST", "/auth/login-codes", json={"user": "admin", "role": "owner"})["url"]


def keep_screenshot(page: Page, name: str) -> None:
    """For a person who wants to look: `SCREENSHOTS=folder make test`."""
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / name))
