"""What a person sees: colours, tables, times in the reader's zone; nothing that steers the terminal."""

import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from molecule_platform.cli import problems
from molecule_wire import times

WIDE = 200
_REORDERING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_STYLES = {
    "online": "green",
    "ok": "green",
    "answered": "green",
    "completed": "green",
    "input-required": "yellow",
    "auth-required": "yellow",
    "rejected": "red",
    "working": "cyan",
    "submitted": "cyan",
    "canceled": "bright_black",
    "degraded": "yellow",
    "warn": "yellow",
    "offline": "red",
    "failed": "red",
    "fail": "red",
    "expired": "red",
    "paused": "bright_black",
    "hibernated": "bright_black",
    "hibernating": "bright_black",
    "removed": "bright_black",
    "cancelled": "bright_black",
    "awaiting_agent": "cyan",
    "provisioning": "cyan",
    "accepted": "cyan",
    "leased": "cyan",
}


def show(*things: RenderableType) -> None:
    """Print for a person, on standard output; a plain text stands as it is."""
    console = _console(sys.stdout)
    for thing in things:
        shown = Text(clean(thing)) if isinstance(thing, str) else thing
        console.print(shown, soft_wrap=not isinstance(shown, Table), highlight=False)


def write(text: str) -> None:
    """Print a piece of a text for a person, at once and without a line break of its own."""
    print(clean(text), end="", flush=True)


def label(text: str) -> None:
    """Print who speaks, in front of what is said."""
    _console(sys.stdout).print(Text(clean(text), style="bold"), end="", highlight=False)


def is_terminal() -> bool:
    """Whether a person types and reads here."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def show_json(value: object, *, indent: int | None = 2) -> None:
    """Print for a machine, on standard output."""
    print(json.dumps(value, indent=indent), flush=True)


def note(sentence: str) -> None:
    """A remark on standard error."""
    print(f"molecule: {clean(sentence)}", file=sys.stderr, flush=True)


def warning(sentence: str, *, as_json: bool) -> None:
    """Something that does not stop the command, on standard error."""
    if as_json:
        print(json.dumps({"warning": sentence}), file=sys.stderr, flush=True)
    else:
        note(sentence)


def failure(problem: problems.Problem, *, as_json: bool) -> None:
    """A problem, always on standard error: standard output holds results and nothing else."""
    if as_json:
        print(json.dumps(problem.as_json()), file=sys.stderr, flush=True)
    else:
        note(str(problem))


def clean(text: str) -> str:
    """The text without control characters: what others wrote must not move the cursor or hide words."""
    return "".join(c for c in text if c in "\n\t" or not (_is_control(c) or c in _REORDERING))


def one_line(text: str) -> str:
    """The text with its line breaks and gaps closed."""
    return clean(text.replace("\n", " ").replace("\t", " ")).rstrip()


def _is_control(character: str) -> bool:
    return unicodedata.category(character) == "Cc"


def status(word: str) -> Text:
    """A status in its colour."""
    return Text(clean(word), style=_STYLES.get(word, ""))


def moment(text: str | None) -> str:
    """A time of the wire in the reader's zone; of today only the clock."""
    if not text:
        return "never"
    local = times.parse_time(text).astimezone()
    is_today = local.date() == datetime.now().astimezone().date()
    return local.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M %Z")


WIDE_COLUMNS = 100
MAX_BESIDE = 60
UNBROKEN = (
    "id", "status", "delivery", "waiting", "last seen", "token", "key", "rule", "speaks", "when",
    "event", "task", "message", "state", "engine", "pinned", "installed", "created", "last used",
)  # fmt: skip
# Columns that are cut where there is no room, but not below so many characters.
NAMES = frozenset({"name", "from", "to", "workspace"})
MIN_NAME_LENGTH = 12
# Columns that get the room the others leave, and are cut there.
REST = frozenset({"details"})
# A column of words is folded, but not below so many characters.
MIN_FOLDED = 14
COLUMN_GAP = "   "


def is_narrow() -> bool:
    """Whether the reader has no room for a wide table."""
    return _console(sys.stdout).width < WIDE_COLUMNS


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """A table without frills; where it would not fit, each row as facts below one another."""
    lines = [[Text(clean(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows]
    widths = [len(name) for name in columns]
    for line in lines:
        widths = [max(width, cell.cell_len) for width, cell in zip(widths, line, strict=True)]
    least = [_shortest(name, width) for name, width in zip(columns, widths, strict=True)]
    room = _console(sys.stdout).width - len(COLUMN_GAP) * len(columns) + 1
    if any(columns) and sum(least) > room:
        return _records(columns, lines)
    # Done here: rich would also take from the ids, which are there to be copied.
    while sum(widths) > room and widths != least:
        widest = max(range(len(widths)), key=lambda place: (widths[place] > least[place], widths[place]))
        widths[widest] -= 1
    made = Table(
        box=box.SIMPLE_HEAD,
        header_style="bold",
        pad_edge=False,
        show_header=any(columns),
        expand=not REST.isdisjoint(columns),
    )
    for column, width in zip(columns, widths, strict=True):
        if column in REST:
            made.add_column(column, overflow="ellipsis", no_wrap=True, ratio=1)
        elif column in NAMES:
            made.add_column(column, overflow="ellipsis", no_wrap=True, width=width)
        else:
            made.add_column(column, overflow="fold", no_wrap=column in UNBROKEN, width=width)
    for line in lines:
        made.add_row(*line)
    return made


def _shortest(column: str, longest: int) -> int:
    """The room that a column needs."""
    if column in UNBROKEN:
        return longest
    if column in REST:
        return 0
    return min(longest, MIN_NAME_LENGTH if column in NAMES else MIN_FOLDED)


def _records(columns: Sequence[str], lines: Sequence[Sequence[Text]]) -> Table:
    made = facts([])
    for number, line in enumerate(lines):
        if number:
            made.add_row("", "")
        for column, cell in zip(columns, line, strict=True):
            if column and cell.plain.strip():
                made.add_row(column, cell)
    return made


def facts(pairs: Iterable[tuple[str, str | Text]]) -> Table:
    """Names and values below one another; empty values are left out."""
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value:
            made.add_row(name, Text(clean(value)) if isinstance(value, str) else value)
    return made


def steps(pairs: Sequence[tuple[str, str]]) -> str:
    """Commands to type, each with what it does: beside it, or below if they are long."""
    longest = max(len(command) for command, _does in pairs)
    if longest > MAX_BESIDE:
        return "\n".join(f"  {command}\n      {does}" for command, does in pairs)
    return "\n".join(f"  {command:<{longest}}    {does}" for command, does in pairs)


def counted(number: int, thing: str) -> str:
    """A number with its noun."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _console(stream: Any) -> Console:
    # A pipe has no width of its own; without this, ids would be cut at 80 columns.
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDE
    return Console(file=stream, width=width)
