"""Patience with a platform that was there and went away, for commands that follow what comes."""

import time

from molecule_platform.cli import problems
from molecule_platform.cli.session import ApiSession

PASSING = (429, 502, 503, 504)


class ReconnectPolicy:
    """Bears what passes once the platform has answered; says so once for each time it is away."""

    def __init__(self, session: ApiSession, *, met: bool = False) -> None:
        self._session = session
        self._met = met
        self._away = False

    def met(self) -> None:
        """The platform is there."""
        self._met, self._away = True, False

    def bear(self, problem: problems.Problem, seconds: float) -> None:
        """Wait a moment, or raise what no waiting helps."""
        if not (self._met and _passes(problem)):
            raise problem
        if not self._away:
            self._session.remark("the platform went away: waiting for it, then going on where this was")
        self._away = True
        time.sleep(seconds)


def _passes(problem: problems.Problem) -> bool:
    refused = isinstance(problem, problems.Refused) and problem.status in PASSING
    return refused or isinstance(problem, problems.Unreachable)
