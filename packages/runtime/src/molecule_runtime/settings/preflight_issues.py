"""What preflight finds, and how it is shown."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class PreflightIssue:
    """One finding. A `fail` keeps the workspace from starting; `fix` says what to do."""

    severity: Literal["warn", "fail"]
    title: str
    detail: str
    fix: str = ""


@dataclass
class PreflightReport:
    """What preflight found."""

    warnings: list[PreflightIssue] = field(default_factory=list[PreflightIssue])
    failures: list[PreflightIssue] = field(default_factory=list[PreflightIssue])

    @property
    def ok(self) -> bool:
        """Whether the workspace may start."""
        return not self.failures

    def add(self, issues: Iterable[PreflightIssue]) -> None:
        """Sort findings in by their severity."""
        for issue in issues:
            (self.failures if issue.severity == "fail" else self.warnings).append(issue)


def warning(title: str, detail: str, fix: str = "") -> PreflightIssue:
    """A finding that is only told."""
    return PreflightIssue("warn", title, detail, fix)


def failure(title: str, detail: str, fix: str = "") -> PreflightIssue:
    """A finding that keeps the workspace from starting."""
    return PreflightIssue("fail", title, detail, fix)


def format_preflight_report(report: PreflightReport) -> str:
    """The findings as text, failures first; nothing when there are none."""
    lines: list[str] = []
    for label, issues in (("FAIL", report.failures), ("WARN", report.warnings)):
        for issue in issues:
            lines.append(f"[{label}] {issue.title}: {issue.detail}")
            if issue.fix:
                lines.append(f"  Fix: {issue.fix}")
    return "\n".join(lines)
