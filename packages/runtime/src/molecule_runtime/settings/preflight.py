"""Preflight: whether a workspace can start, found out before anything is started.

The compatibility path `molecule_runtime.preflight` is this module.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast

from molecule_runtime.domain.config import SUPPORTED_TEMPLATE_SCHEMA, WorkspaceConfig
from molecule_runtime.settings.endpoints import EndpointError, resolve_endpoint
from molecule_runtime.settings.preflight_issues import (
    PreflightIssue,
    PreflightReport,
    failure,
    format_preflight_report,
    warning,
)
from molecule_runtime.settings.preflight_runtime import (
    AdapterLookup,
    AdapterRows,
    check_runtime,
    get_adapter,
    list_adapters,
)

__all__ = [
    "PreflightIssue",
    "PreflightReport",
    "format_preflight_report",
    "render_preflight_report",
    "run_preflight",
]

MAX_CLOCK_SKEW_SECONDS = 60
MIN_FREE_BYTES = 200 * 1024 * 1024

_WITHOUT_MODEL = frozenset({"echo", "python"})
_SANDBOX_COMMANDS = {
    "microsandbox": "msb",
    "bubblewrap": "bwrap",
    "podman": "podman",
    "docker": "docker",
}
_AUTO_BACKENDS = ("bubblewrap", "podman", "docker")


def run_preflight(
    config: WorkspaceConfig,
    path: str | Path,
    *,
    env: Mapping[str, str] | None = None,
    get_adapter: AdapterLookup = get_adapter,
    list_adapters: AdapterRows = list_adapters,
    platform_problem: str = "",
    clock_skew_seconds: float | None = None,
    find_command: Callable[[str], str | None] = shutil.which,
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
) -> PreflightReport:
    """Check everything that can be known without the network; `path` is the config directory.

    Who has asked the platform passes what came of it: `platform_problem` when it was not reached, and by how
    many seconds the clocks differ.
    """
    env = os.environ if env is None else env
    folder = Path(path)
    module = env.get("ADAPTER_MODULE", "").strip()
    report = PreflightReport()
    report.add(check_runtime(config.runtime, module, get_adapter, list_adapters))
    report.add(_check_port(config.a2a.port))
    report.add(_check_required_env(config, env))
    report.add(_check_auth_token(config, folder, env))
    report.add(_check_files(config, folder))
    report.add(_check_template(config))
    report.add(_check_model(config, env))
    report.add(_check_sandbox(config, env, find_command))
    report.add(_check_disk(folder, free_bytes))
    if platform_problem:
        report.add([warning("Platform", platform_problem, "Check PLATFORM_URL and that the platform runs.")])
    if clock_skew_seconds is not None and abs(clock_skew_seconds) > MAX_CLOCK_SKEW_SECONDS:
        seconds = f"{abs(clock_skew_seconds):.0f} s"
        report.add([warning("Clock", f"The clock differs from the platform's by {seconds}", "Correct it.")])
    return report


def render_preflight_report(report: PreflightReport) -> None:
    """Print the findings."""
    if text := format_preflight_report(report):
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def _check_port(port: int) -> Iterator[PreflightIssue]:
    if not 0 <= port <= 65_535:
        yield failure(
            "A2A port", f"Invalid A2A port: {port}", "Set a2a.port from 1 to 65535, or to 0 for a free one."
        )


def _check_required_env(config: WorkspaceConfig, env: Mapping[str, str]) -> Iterator[PreflightIssue]:
    reported_names: set[str] = set()
    for names in _required_names(config):
        sentence = " or ".join(names)
        if names and sentence not in reported_names and not any(_is_set(env, name) for name in names):
            reported_names.add(sentence)
            yield failure(
                "Required env",
                f"Missing required environment variable: {sentence}",
                f"Set {sentence} as a secret of the workspace, or in its environment.",
            )


def _required_names(config: WorkspaceConfig) -> Iterator[list[str]]:
    """Groups of names; of each group one must be set."""
    for each in (*config.runtime_config.required_env, *config.env.required, *_model_requirements(config)):
        yield (
            _texts(cast("dict[str, object]", each).get("any_of")) if isinstance(each, dict) else _texts(each)
        )


def _model_requirements(config: WorkspaceConfig) -> list[object]:
    """`required_env` of the entry of `runtime_config.models` that the workspace uses."""
    model_names = {config.model, config.model.partition(":")[2]} - {""}
    for entry in config.runtime_config.models:
        named = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
        if any(name in model_names for name in _texts([named.get("id"), named.get("name")])):
            required = named.get("required_env")
            return cast("list[object]", required) if isinstance(required, list) else [required]
    return []


def _texts(value: object) -> list[str]:
    """The strings among what a part of the file without known keys holds."""
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str) and item]


def _check_auth_token(
    config: WorkspaceConfig, folder: Path, env: Mapping[str, str]
) -> Iterator[PreflightIssue]:
    fix = "List the variable in runtime_config.required_env, and set it as a secret of the workspace."
    token_file = config.runtime_config.auth_token_file
    if config.runtime_config.auth_token_env:
        yield warning("Auth token", "runtime_config.auth_token_env is deprecated", fix)
    if not token_file:
        return
    yield warning("Auth token", "runtime_config.auth_token_file is deprecated", fix)
    has_variable = any(_is_set(env, name) for names in _required_names(config) for name in names)
    if not has_variable and not _is_file(folder, token_file):
        yield failure("Auth token", f"Missing auth token file: {token_file}", fix)


def _check_files(config: WorkspaceConfig, folder: Path) -> Iterator[PreflightIssue]:
    for name in config.prompt_files:
        if not _is_file(folder, name):
            fix = f"Add {name} to the config directory, or correct prompt_files."
            yield warning("Prompt file", f"Missing prompt file: {name}", fix)
    for name in config.skills:
        if name != "*" and not _is_file(folder / "skills", f"{name}/SKILL.md"):
            fix = f"Add skills/{name}/SKILL.md to the config directory, or correct skills."
            yield warning("Skill", f"Missing skill package: {name}", fix)


def _check_template(config: WorkspaceConfig) -> Iterator[PreflightIssue]:
    version = config.template_schema_version
    if version > SUPPORTED_TEMPLATE_SCHEMA:
        yield warning(
            "Template",
            f"The template has schema version {version}; this runtime knows {SUPPORTED_TEMPLATE_SCHEMA}",
            "Update molecule-ai-workspace-runtime.",
        )


def _check_model(config: WorkspaceConfig, env: Mapping[str, str]) -> Iterator[PreflightIssue]:
    if config.runtime in _WITHOUT_MODEL or _is_set(env, "ADAPTER_MODULE"):
        return
    try:
        endpoint = resolve_endpoint(config.model, config.runtime_config, env)
    except EndpointError as problem:
        yield warning("Model", str(problem), "Correct `model` or runtime_config in config.yaml.")
        return
    logged_in = config.runtime == "claude-code" and _is_set(env, "CLAUDE_CODE_OAUTH_TOKEN")
    if endpoint.lacks_key and not logged_in:
        names = " or ".join(endpoint.key_names)
        yield warning("Model", f"No API key for the model {config.model}", f"Set {names}.")


def _check_sandbox(
    config: WorkspaceConfig, env: Mapping[str, str], find_command: Callable[[str], str | None]
) -> Iterator[PreflightIssue]:
    allowed = [name for name in config.tools if not name.startswith("!")]
    if "!run_code" in config.tools or (allowed and "run_code" not in allowed):
        return
    backend = config.sandbox.backend
    candidates = _AUTO_BACKENDS if backend == "auto" else (backend,)
    if backend in ("subprocess", "none") or (backend == "e2b" and _is_set(env, "E2B_API_KEY")):
        return
    if not any(find_command(_SANDBOX_COMMANDS[each]) for each in candidates if each in _SANDBOX_COMMANDS):
        fix = "Set E2B_API_KEY." if backend == "e2b" else f"Install one of: {', '.join(candidates)}."
        yield warning("Sandbox", f"Sandbox backend not available: {backend}; run_code will refuse", fix)


def _check_disk(folder: Path, free_bytes: Callable[[Path], int]) -> Iterator[PreflightIssue]:
    try:
        free = free_bytes(folder)
    except OSError:
        return
    if free < MIN_FREE_BYTES:
        yield warning("Disk", f"Only {free // (1024 * 1024)} MiB free in {folder}", "Free at least 200 MiB.")


def _is_set(env: Mapping[str, str], name: str) -> bool:
    return bool(env.get(name, "").strip())


def _is_file(folder: Path, name: str) -> bool:
    try:
        return (folder / name).is_file()
    except (OSError, ValueError):
        return False
