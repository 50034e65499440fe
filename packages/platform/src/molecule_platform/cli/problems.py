"""What a command can fail with: one sentence that says what to do next, and a code for machines."""

from collections.abc import Mapping
from typing import Any

FAILURE = 1
USAGE = 2


class Problem(Exception):
    """A command cannot go on. Its text is the sentence; `extras` go beside it into the JSON form."""

    def __init__(
        self,
        sentence: str,
        code: str = "failed",
        *,
        exit_code: int = FAILURE,
        extras: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.code = code
        self.exit_code = exit_code
        self.extras = dict(extras or {})

    def as_json(self) -> dict[str, Any]:
        """The problem for a machine."""
        return self.extras | {"error": str(self), "code": self.code}


class Unreachable(Problem):
    """Nothing that could be the platform answers at its address."""


class Refused(Problem):
    """The platform answered with an error; `status` is the HTTP status."""

    def __init__(self, sentence: str, code: str, status: int, extras: Mapping[str, Any]) -> None:
        super().__init__(sentence, code, extras=extras)
        self.status = status


def usage(sentence: str) -> Problem:
    """The command was called in a way it does not know."""
    return Problem(sentence, "usage", exit_code=USAGE)
