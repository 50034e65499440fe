"""Boot: everything that must be right before an engine is started, in the order of the contract."""

import logging
from dataclasses import dataclass
from typing import Any

from molecule_runtime.domain.config import WorkspaceConfig
from molecule_runtime.domain.config_values import ConfigError
from molecule_runtime.kit.setup.adapter import BaseAdapter
from molecule_runtime.links.platform_client import PlatformClient
from molecule_runtime.registry.adapters import get_adapter
from molecule_runtime.settings.agents_md import generate_agents_md
from molecule_runtime.settings.config import load_config
from molecule_runtime.settings.environment import Environment
from molecule_runtime.settings.preflight import format_preflight_report, run_preflight
from molecule_wire.calls import CallFailed

log = logging.getLogger("molecule_runtime")


class BootFailed(Exception):
    """The workspace cannot start; the text is for whoever started it."""


@dataclass(frozen=True)
class BootContext:
    """What the process runs with."""

    environment: Environment
    config: WorkspaceConfig
    client: PlatformClient
    adapter: BaseAdapter


async def prepare(environment: Environment) -> BootContext:
    """Read and check everything, and make the adapter. Raises BootFailed, told to the platform too."""
    client = PlatformClient(environment.platform_url, environment.workspace_id, org_id=environment.org_id)
    try:
        config = _checked(environment)
        ensure_directories(environment)
        return BootContext(environment, config, client, _adapter(config.runtime))
    except BootFailed as failed:
        await report_failure(client, str(failed))
        await client.close()
        raise


def _checked(environment: Environment) -> WorkspaceConfig:
    for warning in environment.warnings:
        log.warning("%s", warning)
    try:
        config = load_config(str(environment.config_dir), environment.variables)
    except (ConfigError, FileNotFoundError) as problem:
        raise BootFailed(str(problem)) from problem
    report = run_preflight(config, environment.config_dir, env=environment.variables)
    text = format_preflight_report(report)
    if report.failures:
        raise BootFailed(text)
    if text:
        log.warning("%s", text)
    try:
        generate_agents_md(str(environment.config_dir), str(environment.agents_md), environment.variables)
    except OSError as problem:
        log.warning("AGENTS.md was not written: %s", problem)
    return config


def ensure_directories(environment: Environment) -> None:
    """Make the folders of the workspace; a missing one is only a warning, the engine may not need it."""
    for folder in (environment.work_dir, environment.uploads_dir, environment.transcripts_dir):
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as problem:
            log.warning("%s cannot be made: %s", folder, problem.strerror)


def _adapter(runtime: str) -> BaseAdapter:
    try:
        made: Any = get_adapter(runtime)()
    except Exception as problem:
        raise BootFailed(f"the adapter of runtime {runtime!r} cannot be made: {problem}") from problem
    return made


async def report_failure(client: PlatformClient, text: str) -> None:
    """Tell the platform why the workspace does not start, if it can be reached."""
    try:
        await client.log_activity("error", text[:500])
    except (CallFailed, OSError) as problem:
        log.info("the platform was not told: %s", problem)
