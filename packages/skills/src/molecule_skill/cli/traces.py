"""Errors of an author's code, shown with the author's lines and never with ours."""

import linecache
import logging
import re
import traceback
from pathlib import Path
from typing import Any, cast

_FRAME = re.compile(r'\s*File "(.+?)", line (\d+), in (.+)')


def author_lines(problem: BaseException, project: Path) -> str:
    """The exception with the frames inside the project, innermost last, and its causes."""
    chain = [problem]
    while cause := chain[-1].__cause__ or (None if chain[-1].__suppress_context__ else chain[-1].__context__):
        if cause in chain:
            break
        chain.append(cause)
    # The wrapper says nothing that its cause does not: whoever has the author's lines is shown.
    origin = next((one for one in chain if _frames(one, project)), chain[-1] if len(chain) > 1 else problem)
    lines = [*_syntax(origin, project), *_frames(origin, project)]
    text = "\n".join(line.rstrip() for line in traceback.format_exception_only(type(origin), origin))
    last = text.splitlines()[-1] if isinstance(origin, SyntaxError) else text
    return "\n".join([*lines, last])


def author_text(text: str, project: Path) -> str:
    """A text with the frames of tracebacks in it, without those outside the project."""
    lines: list[str] = []
    keeps = True
    for line in text.splitlines():
        frame = _FRAME.match(line)
        if frame is not None:
            place = _place(frame[1], project)
            keeps = place is not None
            if keeps:
                lines.append(f"{place}:{frame[2]} in {frame[3]}")
            continue
        if not line.startswith("    "):
            keeps = True
        if keeps and line.strip(" ~^") and "Traceback (most recent call last)" not in line:
            lines.append(line)
        elif "Traceback (most recent call last)" in line and not line.startswith("Traceback"):
            lines.append(line.partition("Traceback")[0].rstrip())
    return "\n".join(lines)


def _syntax(problem: BaseException, project: Path) -> list[str]:
    if not isinstance(problem, SyntaxError) or not problem.filename:
        return []
    place = _place(problem.filename, project)
    code = (problem.text or linecache.getline(problem.filename, problem.lineno or 0)).strip()
    return [f"{place or problem.filename}:{problem.lineno}", f"    {code}"]


def _frames(problem: BaseException, project: Path) -> list[str]:
    lines: list[str] = []
    for frame in traceback.extract_tb(problem.__traceback__):
        place = _place(frame.filename, project)
        if place is not None:
            lines += [f"{place}:{frame.lineno} in {frame.name}", f"    {frame.line}"]
    return lines


def _place(filename: str, project: Path) -> str | None:
    if filename.startswith("<"):  # code without a file, such as the import system
        return None
    try:
        return str(Path(filename).resolve().relative_to(project.resolve()))
    except ValueError:
        return None


class AuthorFormatter(logging.Formatter):
    """Log lines whose tracebacks have the author's frames only."""

    def __init__(self, project: Path) -> None:
        super().__init__("%(levelname)s %(message)s")
        self._project = project

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`; a traceback inside the message is cut down too."""
        return author_text(super().format(record), self._project)

    def formatException(self, ei: object) -> str:
        """See `logging.Formatter`."""
        problem = cast("tuple[Any, ...]", ei)[1] if isinstance(ei, tuple) else None
        return author_lines(problem, self._project) if isinstance(problem, BaseException) else ""
