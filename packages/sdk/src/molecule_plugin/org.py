"""What must hold of an org template: a directory with an `org.yaml`, a tree of workspaces."""

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from molecule_plugin import org_nodes
from molecule_plugin.findings import Finding, ValidationError, validation_errors
from molecule_plugin.org_nodes import NodeFinding
from molecule_plugin.values import items, mapping, named, text, type_name
from molecule_plugin.workspace import SUPPORTED_RUNTIMES
from molecule_plugin.yaml_reader import Document, Steps, read_template_yaml

__all__ = ["SUPPORTED_RUNTIMES", "ValidationError", "org_findings", "validate_org_template"]

ORG = "org.yaml"
_MAX_WORKSPACES = 10_000


@dataclass(frozen=True)
class Node:
    """A workspace of a template: its label in messages, the way to it, and what it says."""

    label: str
    steps: Steps
    value: object


def validate_org_template(path: Path | str) -> list[ValidationError]:
    """What is wrong with an org template; empty when nothing is."""
    return validation_errors(org_findings(Path(path)))


def org_findings(template_dir: Path) -> list[Finding]:
    """The same, and what is only worth a warning."""
    path = template_dir / ORG
    if not os.path.lexists(path):
        return [Finding(ORG, "missing org.yaml", code="org-invalid")]
    document = read_template_yaml(path)
    if document.problem:
        return [_finding(document, NodeFinding(f"invalid YAML: {document.problem}"))]
    if mapping(document.value) is None:
        return [_finding(document, NodeFinding("org.yaml must be a YAML object"))]
    fields = named(document.value)
    defaults = named(fields.get("defaults"))
    found = [_finding(document, remark) for remark in _top(fields)]
    for count, node in enumerate(nodes(fields)):
        if count == _MAX_WORKSPACES:
            return [*found, _finding(document, NodeFinding(f"more than {_MAX_WORKSPACES} workspaces"))]
        found += [_finding(document, remark, node) for remark in org_nodes.remarks(node.value, defaults)]
    return found


def nodes(fields: dict[str, object]) -> Iterator[Node]:
    """Every workspace of a template, parents first; what aliases lead to is entered once."""
    seen: dict[int, object] = {}
    waiting = deque(_roots(fields))
    while waiting:
        node = waiting.popleft()
        yield node
        if id(node.value) not in seen:
            seen[id(node.value)] = node.value
            waiting += _level(f"{node.label}.", node.steps, "children", named(node.value))


def _finding(document: Document, remark: NodeFinding, node: Node | None = None) -> Finding:
    label, steps = ("", ()) if node is None else (node.label, node.steps)
    line = document.line(*steps, *remark.steps)
    return Finding(ORG, f"{label}{remark.message}", remark.severity, remark.code, line)


def _top(fields: dict[str, object]) -> Iterator[NodeFinding]:
    if fields.get("name", fields.get("org_name")) in (None, ""):
        yield NodeFinding("missing required field: name")
    if fields.get("defaults") is not None and mapping(fields["defaults"]) is None:
        yield NodeFinding(f"defaults must be an object; got {type_name(fields['defaults'])}", ("defaults",))
    workspaces = fields.get("workspaces")
    if workspaces is None or workspaces in ([], {}):
        yield NodeFinding("missing required field: workspaces (non-empty list)")
    elif items(workspaces) is None and not _is_map_form(fields):
        yield NodeFinding(f"workspaces must be a list; got {type_name(workspaces)}", ("workspaces",))


def _is_map_form(fields: dict[str, object]) -> bool:
    """Whether `workspaces` maps names to bodies, as files with `org_name` write it."""
    return "org_name" in fields and mapping(fields.get("workspaces")) is not None


def _roots(fields: dict[str, object]) -> Iterator[Node]:
    if not _is_map_form(fields):
        yield from _level("", (), "workspaces", fields)
        return
    for number, (name, body) in enumerate(named(fields["workspaces"]).items()):
        value = body if mapping(body) is None else {"name": name, **named(body)}
        yield Node(f"workspaces[{number}:{name[:80]}]", ("workspaces", name), value)


def _level(prefix: str, steps: Steps, key: str, fields: dict[str, object]) -> Iterator[Node]:
    for number, value in enumerate(items(fields.get(key)) or []):
        name = text(named(value).get("name"))[:80]
        label = f"{prefix}{key}[{number}:{name}]" if name else f"{prefix}{key}[{number}]"
        yield Node(label, (*steps, key, number), value)
