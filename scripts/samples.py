"""The samples of the documentation: found in the pages, run as a reader would run them.

A fenced block whose info string says `runnable` after its language is a promise that it works:

* ``python runnable``: the block is a whole program and ends with exit code 0;
* ``console runnable``: each line after ``$ `` is a shell command that ends with exit code 0. The lines below
  a command are its output (``...`` stands for anything); without such lines the output is not looked at.
"""

import doctest
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<ticks>`{3,})(?P<info>[^`]*)$")
TIMEOUT_SECONDS = 60.0
OUTPUT_RULES = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Sample:
    """One fenced block of a page; `line` is where its text begins."""

    page: str
    line: int
    language: str
    runnable: bool
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One command of a console sample with the output that the page shows for it."""

    line: str
    output: str


class SampleFailed(Exception):
    """A sample of the documentation does not do what its page says; mend the page or the product."""


def find(page: str, text: str) -> Iterator[Sample]:
    """Every fenced block of a page, in order."""
    opening: re.Match[str] | None = None
    first = 0
    lines = text.splitlines()
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if opening is None and fence:
            opening, first = fence, number + 1
        elif opening is not None and fence and _closes(fence, opening):
            yield _sample(page, opening["info"], first + 1, lines[first:number])
            opening = None


def _closes(fence: re.Match[str], opening: re.Match[str]) -> bool:
    return not fence["info"].strip() and len(fence["ticks"]) >= len(opening["ticks"])


def _sample(page: str, info: str, line: int, lines: list[str]) -> Sample:
    language, *words = info.split() or [""]
    return Sample(page, line, language, "runnable" in words, "\n".join(lines) + "\n")


def commands(sample: Sample) -> list[Command]:
    """The commands of a console sample; text above the first command belongs to none and is a fault."""
    before, *parts = re.split(r"^\$ ", sample.text, flags=re.MULTILINE)
    if before.strip():
        raise SampleFailed(f"{sample.place}: a console sample starts with a line '$ command'.")
    split = (part.partition("\n") for part in parts)
    return [Command(line, output.rstrip("\n")) for line, _, output in split]


def run(sample: Sample, folder: Path, environ: Mapping[str, str]) -> None:
    """Run one sample in `folder`; raises SampleFailed with what it said."""
    if sample.language == "console":
        for command in commands(sample):
            _run_command(sample, command, folder, environ)
    elif sample.language == "python":
        _execute(sample, [sys.executable, "-c", sample.text], folder, environ)
    else:
        raise SampleFailed(f"{sample.place}: only python and console samples can be runnable.")


def _run_command(sample: Sample, command: Command, folder: Path, environ: Mapping[str, str]) -> None:
    said = _execute(sample, ["sh", "-c", command.line], folder, environ)
    if command.output and not doctest.OutputChecker().check_output(command.output, said, OUTPUT_RULES):
        raise SampleFailed(
            f"{sample.place}: '{command.line}' said\n{said}\nand the page shows\n{command.output}"
        )


def _execute(sample: Sample, arguments: list[str], folder: Path, environ: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            arguments, cwd=folder, env=environ, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise SampleFailed(
            f"{sample.place}: not done after {TIMEOUT_SECONDS:g} s: {arguments[-1]}"
        ) from error
    if done.returncode:
        raise SampleFailed(
            f"{sample.place}: exit code {done.returncode} from\n{arguments[-1]}\n{done.stdout}{done.stderr}"
        )
    return done.stdout
