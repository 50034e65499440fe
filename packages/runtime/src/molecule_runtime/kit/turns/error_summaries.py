"""Short texts for people: what a task is about, and that something failed, without its internals."""

import re

BRIEF_SUMMARY_MAX_LEN = 80
BRIEF_TASK_MAX_LEN = 60
MIN_SUMMARY_CHARACTERS = 4
_FENCE = re.compile(r"^(```|~~~)")
_RULE = re.compile(r"^([-*_=]\s*){3,}$")
_HEADING = re.compile(r"^#{1,6}\s+")
_QUOTE_OR_LIST = re.compile(r"^(>\s*)+")
_BOLD = re.compile(r"(\*\*|__)(.+?)\1")

_ERROR_PATTERNS = (
    ("rate_limited", re.compile(r"\b(rate[ _-]?limit(ed|s|ing)?|too many requests|429|overloaded)\b", re.I)),
    (
        "auth_failed",
        re.compile(
            r"\b(unauthori[sz]ed|authentication|auth failed|invalid (api key|token)|not logged in|401|403)\b",
            re.I,
        ),
    ),
    (
        "session_error",
        re.compile(r"\b(session|conversation) (\S+ )?(not found|expired|invalid|error)\b", re.I),
    ),
)


def brief(text: str, limit: int) -> str:
    """The first line that says something, without markers of Markdown, in at most `limit` characters."""
    limit = max(limit, MIN_SUMMARY_CHARACTERS)
    line = next((clean for line in _lines(text) if (clean := _plain(line))), "")
    return line if len(line) <= limit else line[: limit - 3].rstrip() + "..."


def brief_task(text: str, limit: int = BRIEF_TASK_MAX_LEN) -> str:
    """A task in one short line."""
    return brief(text, limit)


def brief_summary(text: str, max_len: int = BRIEF_SUMMARY_MAX_LEN) -> str:
    """An answer in one short line."""
    return brief(text, max_len)


def classify_subprocess_error(stderr: str, code: int | None) -> str:
    """The category of a failed child process, by whole words of what it wrote."""
    for category, pattern in _ERROR_PATTERNS:
        if pattern.search(stderr or ""):
            return category
    return f"exit_{code}" if code else "subprocess_error"


def sanitize_agent_error(exc: BaseException | None = None, category: str | None = None) -> str:
    """The sentence that a caller is told about a failure; the text of the exception stays in the log."""
    tag = category or (type(exc).__name__ if exc is not None else "unknown")
    return f"Agent error ({tag}) — see workspace logs for details."


def _lines(text: str) -> list[str]:
    """The lines outside of code; when there are none, those inside."""
    outside: list[str] = []
    inside: list[str] = []
    in_code = False
    for line in text.splitlines():
        if _FENCE.match(line.strip()):
            in_code = not in_code
        else:
            (inside if in_code else outside).append(line.strip())
    return [line for line in (*outside, *inside) if line and not _RULE.match(line)]


def _plain(line: str) -> str:
    line = _HEADING.sub("", _QUOTE_OR_LIST.sub("", line))
    return " ".join(_BOLD.sub(r"\2", line).split())
