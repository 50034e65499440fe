"""What a command prints: lines of at most 80 columns for people, one JSON value for programs."""

import json
import sys
import textwrap
from typing import Any

COLUMNS = 80


class CommandFailed(Exception):
    """A command cannot do what it was asked to; the text says what to do next."""

    def __init__(self, sentence: str, *, exit_code: int = 1, **details: Any) -> None:
        self.exit_code = exit_code
        self.details = details
        super().__init__(sentence)


class Output:
    """Standard output of one command."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def line(self, text: str = "") -> None:
        """A line for people; long ones are broken."""
        if not self.as_json:
            for part in text.splitlines() or [""]:
                print(_broken(part), flush=True)

    def verbatim(self, text: str) -> None:
        """A text for people as it is: JSON, code, an address."""
        if not self.as_json:
            print(text, flush=True)

    def value(self, value: Any) -> None:
        """The result for programs."""
        if self.as_json:
            print(json.dumps(value, ensure_ascii=False, default=str), flush=True)

    def failure(self, problem: CommandFailed) -> None:
        """Why the command failed."""
        if self.as_json:
            print(
                json.dumps({"ok": False, "error": str(problem), **problem.details}, default=str), flush=True
            )
            return
        for part in str(problem).splitlines():
            print(_broken(part), file=sys.stderr, flush=True)


def _broken(text: str) -> str:
    if len(text) <= COLUMNS:
        return text
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return textwrap.fill(
        text, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
