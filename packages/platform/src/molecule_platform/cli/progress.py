"""Progress of long work, on standard error: what is being done, and for how long."""

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from rich.console import Console, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Column, Table
from rich.text import Text

from molecule_platform.cli import output

STILL_SECONDS = 10.0
"""How often a log, where nothing can be drawn anew, is told that the work goes on."""


class Progress:
    """Steps with details, one at a time. This one shows nothing; the others extend it."""

    def step(self, title: str) -> None:
        """Begin the next step; the one before is done."""

    def detail(self, words: str) -> None:
        """Say what the step is busy with just now."""

    def still(self) -> None:
        """Some time passed."""


@contextmanager
def shown(*, as_json: bool) -> Generator[Progress]:
    """Progress as its reader can use it: none for a machine, drawn on a terminal, lines in a log."""
    if as_json:
        yield Progress()
    elif sys.stderr.isatty():
        with _drawn() as drawing:
            yield drawing
    else:
        with _told() as lines:
            yield lines


def duration(seconds: float) -> str:
    """A duration in words."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


@dataclass
class _Step:
    title: str
    began: float = field(default_factory=time.monotonic)
    detail: str = ""
    mark: Literal["✓", "✗", ""] = ""
    seconds: float = 0.0

    def end(self, mark: Literal["✓", "✗"]) -> None:
        self.mark, self.detail, self.seconds = mark, "", time.monotonic() - self.began

    @property
    def elapsed(self) -> str:
        return duration(self.seconds if self.mark else time.monotonic() - self.began)


class _Drawing(Progress):
    """One line for each step; the last one moves."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._spinner = Spinner("dots", style="cyan")

    def step(self, title: str) -> None:
        self.end("✓")
        self._steps.append(_Step(output.one_line(title)))

    def detail(self, words: str) -> None:
        if self._steps:
            self._steps[-1].detail = output.one_line(words)

    def end(self, mark: Literal["✓", "✗"]) -> None:
        """The last step is over."""
        if self._steps:
            self._steps[-1].end(mark)

    def __rich__(self) -> RenderableType:
        columns = (
            Column(width=1),
            Column(no_wrap=True, overflow="ellipsis", ratio=1),
            Column(no_wrap=True, justify="right"),
        )
        grid = Table.grid(*columns, padding=(0, 1), expand=True)
        for step in self._steps:
            colour = "green" if step.mark == "✓" else "red"
            mark = Text(step.mark, style=colour) if step.mark else self._spinner
            detail = (f"  {step.detail}", "bright_black")
            grid.add_row(mark, Text.assemble(step.title, detail), Text(step.elapsed, style="bright_black"))
        return grid


@contextmanager
def _drawn() -> Generator[Progress]:
    drawing = _Drawing()
    with Live(drawing, console=Console(stderr=True), refresh_per_second=8):
        try:
            yield drawing
        except BaseException:
            drawing.end("✗")
            raise
        drawing.end("✓")


class _Lines(Progress):
    """A line when a step begins, and one now and then while it takes long."""

    def __init__(self) -> None:
        self._step: _Step | None = None

    def step(self, title: str) -> None:
        self._step = _Step(title)
        output.note(f"{title} …")

    def detail(self, words: str) -> None:
        if self._step:
            self._step.detail = words

    def still(self) -> None:
        if self._step:
            words = self._step.detail or self._step.title
            output.note(f"{words} … {self._step.elapsed}")


@contextmanager
def _told() -> Generator[Progress]:
    lines, over = _Lines(), threading.Event()

    def tell() -> None:
        while not over.wait(STILL_SECONDS):
            lines.still()

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        over.set()
        thread.join()
