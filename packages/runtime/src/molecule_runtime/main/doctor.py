"""`molecule-runtime doctor`: what this workspace would start with, for whoever looks for a fault."""

import platform
import time
from collections.abc import Mapping

import molecule_runtime
from molecule_runtime.domain.config_values import ConfigError
from molecule_runtime.kit.state.known_secrets import is_secret_name
from molecule_runtime.links.platform_client import PlatformClient
from molecule_runtime.registry.adapters import list_adapters
from molecule_runtime.settings.config import load_config
from molecule_runtime.settings.environment import LOCAL_WORKSPACE_ID, Environment
from molecule_runtime.settings.preflight import PreflightReport, run_preflight
from molecule_runtime.settings.preflight_issues import PreflightIssue, failure
from molecule_wire import JSONObject, redaction
from molecule_wire.calls import CallFailed

_PREFIXES = ("MOLECULE_", "WORKSPACE_", "PLATFORM_", "A2A_", "DELEGATION_", "AUDIT_", "OTEL_", "LANGFUSE_")
_NAMES = ("AGENT_URL", "ADAPTER_MODULE", "MODEL_PROVIDER", "PARENT_ID", "PLUGINS_DIR", "CONFIGS_DIR", "TIER")


async def examine(environment: Environment) -> tuple[JSONObject, PreflightReport]:
    """Facts about the environment, and what preflight finds. Values of secrets are not among them."""
    is_local = environment.workspace_id == LOCAL_WORKSPACE_ID
    reached, skew = await _platform(environment)
    facts: JSONObject = {
        "python": platform.python_version(),
        "molecule-runtime": molecule_runtime.__version__,
        "workspace": "none: WORKSPACE_ID is not set" if is_local else environment.workspace_id,
        "platform": f"{environment.platform_url} ({reached or 'reached'})",
        "token": "there is one" if environment.token_file.exists() else _token(environment),
        "config": str(environment.config_dir),
        "work": str(environment.work_dir),
        "link": environment.link or "push",
        "runtimes": ", ".join(row["name"] for row in list_adapters() if row["available"]),
        "settings": ", ".join(_settings(environment.variables)) or "none",
        "secrets": ", ".join(sorted(filter(is_secret_name, environment.variables))) or "none",
    }
    try:
        config = load_config(str(environment.config_dir), environment.variables)
    except (ConfigError, FileNotFoundError) as problem:
        facts["config"] = f"{facts['config']} (cannot be read)"
        report = PreflightReport()
        report.add(unreadable(problem))
        return facts, report
    return facts, run_preflight(
        config,
        environment.config_dir,
        env=environment.variables,
        platform_problem=reached,
        clock_skew_seconds=skew,
    )


def unreadable(problem: Exception) -> list[PreflightIssue]:
    """A config.yaml that cannot be read, as findings."""
    return [failure("Config", line) for line in str(problem).splitlines()]


async def _platform(environment: Environment) -> tuple[str, float | None]:
    """What keeps the platform from being reached, and by how many seconds the clocks differ."""
    client = PlatformClient(environment.platform_url, environment.workspace_id, org_id=environment.org_id)
    try:
        server_time = await client.server_time()
        return "", None if server_time is None else time.time() - server_time
    except (CallFailed, OSError) as problem:
        return f"not reached: {problem}", None
    finally:
        await client.close()


def _token(environment: Environment) -> str:
    return "from the environment" if environment.workspace_token else "none; the first registration brings it"


def _settings(variables: Mapping[str, str]) -> list[str]:
    names = [name for name in variables if name.startswith(_PREFIXES) or name in _NAMES]
    return sorted(
        f"{name}={redaction.redact(variables[name], redaction.LOG)}"
        for name in names
        if not is_secret_name(name)
    )
