"""What must hold of a workspace template: a directory with a `config.yaml`."""

import os
from collections.abc import Iterator
from pathlib import Path

from molecule_plugin.findings import Finding, ValidationError, validation_errors
from molecule_plugin.manifest_rules import known_runtimes
from molecule_plugin.values import display, is_number, is_tier, items, mapping, named
from molecule_plugin.yaml_reader import Document, read_template_yaml
from molecule_wire import registry
from molecule_wire.registry import SUPPORTED_RUNTIMES

__all__ = [
    "SUPPORTED_RUNTIMES",
    "ValidationError",
    "is_runtime",
    "runtime_choices",
    "template_findings",
    "validate_workspace_template",
]

CONFIG = "config.yaml"


def validate_workspace_template(path: Path | str) -> list[ValidationError]:
    """What is wrong with a workspace template; empty when nothing is."""
    return validation_errors(template_findings(Path(path)))


def template_findings(template_dir: Path) -> list[Finding]:
    """The same, each with its code."""
    path = template_dir / CONFIG
    if not os.path.lexists(path):
        return [Finding(CONFIG, "missing config.yaml", code="workspace-invalid")]
    document = read_template_yaml(path)
    if document.problem:
        return [_fault(document, f"invalid YAML: {document.problem}")]
    if mapping(document.value) is None:
        return [_fault(document, "config.yaml must be a YAML object")]
    fields = named(document.value)
    faults = [*_required(fields), *_tier(fields), *_runtime_config(fields)]
    return [_fault(document, message, *steps) for message, *steps in faults]


def is_runtime(value: object) -> bool:
    """Whether a value names a runtime, in either spelling."""
    return isinstance(value, str) and registry.underscored(value) in known_runtimes()


def runtime_choices() -> list[str]:
    """Every runtime in both spellings, for a message."""
    return sorted(registry.both_spellings(known_runtimes()))


def _fault(document: Document, message: str, *steps: str) -> Finding:
    return Finding(CONFIG, message, code="workspace-invalid", line=document.line(*steps))


def _required(fields: dict[str, object]) -> Iterator[tuple[str, ...]]:
    for key in ("name", "runtime"):
        if fields.get(key) in (None, ""):
            yield (f"missing required field: {key}",)
    runtime = fields.get("runtime")
    if runtime not in (None, "") and not is_runtime(runtime):
        yield f"runtime={display(runtime)} — must be one of: {runtime_choices()}", "runtime"


def _tier(fields: dict[str, object]) -> Iterator[tuple[str, ...]]:
    if fields.get("tier") is not None and not is_tier(fields["tier"]):
        yield f"tier must be 1, 2, or 3; got {display(fields['tier'])}", "tier"


def _runtime_config(fields: dict[str, object]) -> Iterator[tuple[str, ...]]:
    runtime_config = fields.get("runtime_config")
    if runtime_config is None:
        return
    if mapping(runtime_config) is None:
        yield f"runtime_config must be an object; got {display(runtime_config)}", "runtime_config"
        return
    config = named(runtime_config)
    if "required_env" in config and not _are_names(config["required_env"]):
        yield (
            "runtime_config.required_env must be a list of env var names",
            "runtime_config",
            "required_env",
        )
    if "timeout" in config and not is_number(config["timeout"]):
        message = f"runtime_config.timeout must be a number; got {display(config['timeout'])}"
        yield message, "runtime_config", "timeout"


def _are_names(value: object) -> bool:
    listed = items(value)
    return listed is not None and all(isinstance(name, str) and name for name in listed)
