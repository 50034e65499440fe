"""`validate`: what is wrong, where, for people and for programs."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from molecule_plugin.channel import file_findings
from molecule_plugin.findings import Finding, errors, place
from molecule_plugin.lint import lint_plugin
from molecule_plugin.org import org_findings
from molecule_plugin.workspace import template_findings

KINDS: dict[str, Callable[[Path], list[Finding]]] = {
    "plugin": lint_plugin,
    "workspace": template_findings,
    "org": org_findings,
    "channel": file_findings,
}
_NAMES = {"plugin": "plugin", "workspace": "workspace template", "org": "org template", "channel": "channel"}


@dataclass(frozen=True)
class PathFindings:
    """One path and everything that was found there."""

    path: str
    kind: str
    findings: list[Finding]

    def is_valid(self, strict: bool) -> bool:
        """Whether nothing counts against it."""
        return not (self.findings if strict else errors(self.findings))

    def place(self, finding: Finding) -> str:
        """Where a finding is, seen from where the command runs."""
        whole = not finding.file or finding.file == self.path
        return place(self.path if whole else f"{self.path.rstrip('/')}/{finding.file}", finding.line)


def validate(args: argparse.Namespace) -> int:
    """Run `validate`."""
    kind, paths = split_kind(args.paths)
    checked = [check(kind, path) for path in paths]
    if args.format == "json":
        print_json(checked, args.strict)
    else:
        for one in checked:
            print_text(one, args.quiet, args.strict)
    return 0 if all(one.is_valid(args.strict) for one in checked) else 1


def split_kind(words: list[str]) -> tuple[str, list[str]]:
    """The kind, if the first word is one and a path follows, and the paths."""
    if len(words) > 1 and words[0] in KINDS:
        return words[0], words[1:]
    return "plugin", words


def check(kind: str, path: str) -> PathFindings:
    """Look at one path."""
    place = Path(path)
    if not place.exists() and not place.is_symlink():
        return PathFindings(path, kind, [Finding("", "does not exist", code="path")])
    if kind != "channel" and not place.is_dir():
        return PathFindings(path, kind, [Finding("", "not a directory", code="path")])
    return PathFindings(path, kind, KINDS[kind](place))


def print_text(checked: PathFindings, quiet: bool, strict: bool) -> None:
    """Faults go to stderr, one a line; what is valid to stdout."""
    for finding in checked.findings:
        counts = strict or finding.severity == "error"
        if counts or not quiet:
            sign = "✗" if finding.severity == "error" else "⚠"
            print(f"{sign} {checked.place(finding)}: {finding.message}", file=sys.stderr)
    if checked.is_valid(strict) and not quiet:
        print(f"✓ {checked.path}: valid {_NAMES[checked.kind]}")


def print_json(checked: list[PathFindings], strict: bool) -> None:
    """One JSON object for everything."""
    rows = [
        {
            "path": one.path,
            "kind": one.kind,
            "valid": one.is_valid(strict),
            "findings": [asdict(finding) for finding in one.findings],
        }
        for one in checked
    ]
    print(json.dumps({"valid": all(one.is_valid(strict) for one in checked), "checked": rows}, indent=2))
