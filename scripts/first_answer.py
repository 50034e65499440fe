"""From an empty directory to the first answer on the development page, timed as a newcomer would.

usage: python -m scripts.first_answer [FOLDER]
"""

import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.e2e.browsing import ARGUMENTS, chromium_path

MAX_SECONDS = 20.0
COMMAND = [sys.executable, "-m", "molecule_skill.cli.main"]


def first_answer(folder: Path) -> tuple[float, str]:
    """Start a project, open its page, run its skill; the seconds that took and what the page shows."""
    began = time.monotonic()
    subprocess.run([*COMMAND, "init", "hello"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    log = folder / "dev.log"
    with log.open("w") as out:
        process = subprocess.Popen([*COMMAND, "dev", "--port", "0"], cwd=folder / "hello", stdout=out)
    try:
        while not (found := re.search(r"http://\S+token=\S+", log.read_text())):
            if process.poll() is not None or time.monotonic() - began > MAX_SECONDS:
                raise RuntimeError(f"the server did not start: {log.read_text()}")
            time.sleep(0.02)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(ARGUMENTS))
            page = browser.new_page()
            page.goto(found[0])
            page.fill("#skill-greet [name=name]", "Ada")
            page.click("#skill-greet button[type=submit]")
            shown = page.locator("#result").inner_text()
            took = time.monotonic() - began
            browser.close()
        return took, shown
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(40)


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as temporary:
        took, shown = first_answer(Path(arguments[0]) if arguments else Path(temporary))
    print(f"{took:.1f} s from an empty directory to {shown!r} on the page (at most {MAX_SECONDS:g} s)")
    return 0 if took <= MAX_SECONDS and shown == "Hello, Ada!" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
