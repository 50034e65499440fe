"""A pytest plugin that begins no test after some seconds, and says how many it left."""

import math
import time
from typing import cast

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--stop-after",
        type=float,
        default=math.inf,
        metavar="SECONDS",
        help="begin no test after so many seconds",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Deadline(config), "deadline")


class Deadline:
    """Lets the rest pass by unrun once the time is over; their fixtures are still torn down at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._seconds = cast("float", config.getoption("--stop-after"))
        self._until = time.monotonic() + self._seconds
        self._found = self._begun = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        return True if time.monotonic() > self._until else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._begun += report.when == "setup"

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._found = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Every worker finds the same tests."""
        self._found = len(ids)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        left = self._found - self._begun
        if left > 0:
            terminalreporter.write_line(
                f"{left} tests further away were left out after {self._seconds:.0f} s: run `make test`."
            )
