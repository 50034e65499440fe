"""What a validator found: where, what, how bad."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True)
class ValidationError:
    """A fault in a file. It is a value, not an exception: validators return a list of them."""

    file: str
    message: str
    line: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{place(self.file, self.line)}: {self.message}"


@dataclass(frozen=True)
class Finding:
    """What lint has to say about a file. An error keeps the file from being used, a warning does not."""

    file: str
    message: str
    severity: Severity = "error"
    code: str = "invalid"
    line: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{place(self.file, self.line)}: {self.message}"


def place(file: str, line: int | None) -> str:
    """A file and, where it is known, a line, as editors and terminals understand it."""
    return file if line is None else f"{file}:{line}"


def warning(file: str, message: str, code: str, line: int | None = None) -> Finding:
    """A finding that only `--strict` counts."""
    return Finding(file, message, "warning", code, line)


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that count."""
    return [finding for finding in findings if finding.severity == "error"]


def validation_errors(findings: Iterable[Finding]) -> list[ValidationError]:
    """The findings that count, as validators return them."""
    return [ValidationError(found.file, found.message, found.line) for found in errors(findings)]


def inside(folder: str, findings: Iterable[Finding]) -> list[Finding]:
    """Findings of files of a folder, seen from above it."""
    return [replace(finding, file=f"{folder}/{finding.file}") for finding in findings]
