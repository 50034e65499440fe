"""The environment of a workspace, read once into one value that does not change.

Variables that only win over a key of config.yaml stand at that key; keys of model providers in `endpoints`.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from molecule_runtime.domain.config import A2AConfig
from molecule_runtime.domain.config_keys import key, read_keys, variable
from molecule_runtime.domain.config_types import BooleanType, IntegerType, PathType, TextType, TierType
from molecule_runtime.domain.config_values import ConfigError, ConfigReading, ConfigValue

MISSING_WORKSPACE_ID = "FATAL: WORKSPACE_ID env var is not set. Aborting."
CONFIG_DIR = Path("/configs")
WORK_DIR = Path("/workspace")
LOCAL_WORKSPACE_ID = "local"
"""The id of a workspace that is only tried out, without a platform."""
AUDIT_DIR = Path("/var/log/molecule")

_CONTAINER_MARK = Path("/.dockerenv")
_CONFIG_DIR_NAMES = ("WORKSPACE_CONFIG_PATH", "CONFIGS_DIR", "MOLECULE_CONFIGS_DIR")
_TOKEN_DIR_NAMES = ("CONFIGS_DIR", "MOLECULE_CONFIGS_DIR", "WORKSPACE_CONFIG_PATH")

_TEXT, _PATH, _FLAG, _SECONDS = TextType(), PathType(), BooleanType(), IntegerType(0)
_PORT = IntegerType(0, 65_535)


class MissingWorkspaceId(ConfigError):
    """There is no WORKSPACE_ID, without which a workspace cannot say who it is."""

    def __init__(self) -> None:
        super().__init__(MISSING_WORKSPACE_ID)


@dataclass(frozen=True)
class Environment:
    """The settings that a workspace is started with. Secrets do not show in its text form.

    An empty text means that nothing was said; `link` is then chosen by what can be reached. `variables` is
    the environment as it was, for names that others decide.
    """

    # Identity
    workspace_id: str = key(_TEXT, "", "WORKSPACE_ID", "MOLECULE_WORKSPACE_ID")
    platform_url: str = key(_TEXT, "", "PLATFORM_URL", "MOLECULE_URL", "MOLECULE_PLATFORM_URL")
    workspace_token: str = key(_TEXT, "", "MOLECULE_WORKSPACE_TOKEN", secret=True)
    org_id: str = key(_TEXT, "", "MOLECULE_ORG_ID")
    parent_id: str = key(_TEXT, "", "PARENT_ID")
    tier: int = key(TierType(), 1, "WORKSPACE_TIER", "TIER")
    agent_role: str = key(_TEXT, "", "MOLECULE_AGENT_ROLE")
    # Places
    config_dir: Path = key(_PATH, CONFIG_DIR, *_CONFIG_DIR_NAMES)
    token_dir: Path = key(_PATH, CONFIG_DIR, *_TOKEN_DIR_NAMES)
    work_dir: Path = key(_PATH, WORK_DIR, "MOLECULE_WORKSPACE_DIR")
    plugins_dir: Path = key(_PATH, Path("/plugins"), "PLUGINS_DIR")
    # Network
    agent_url: str = key(_TEXT, "", "AGENT_URL")
    hostname: str = key(_TEXT, "", "HOSTNAME")
    bind_host: str = key(_TEXT, "", "MOLECULE_BIND_HOST")
    link: str = key(TextType(("push", "poll")), "", "MOLECULE_LINK")
    require_caller: str = key(TextType(("always", "auto", "off")), "auto", "MOLECULE_REQUIRE_CALLER")
    idle_timeout_seconds: int = key(_SECONDS, 300, "A2A_IDLE_TIMEOUT_SECONDS")
    # Adapter
    adapter_module: str = key(_TEXT, "", "ADAPTER_MODULE")
    max_tokens: int = key(IntegerType(1), 2048, "MAX_TOKENS")
    langgraph_recursion_limit: int = key(IntegerType(1), 500, "LANGGRAPH_RECURSION_LIMIT")
    # Delegation and approval
    delegation_results_file: Path = key(_PATH, Path(), "DELEGATION_RESULTS_FILE")
    approval_poll_interval: int = key(IntegerType(1), 5, "APPROVAL_POLL_INTERVAL")
    approval_use_websocket: str = key(_TEXT, "auto", "APPROVAL_USE_WEBSOCKET")
    # Memory
    awareness_url: str = key(_TEXT, "", "AWARENESS_URL")
    awareness_namespace: str = key(_TEXT, "", "AWARENESS_NAMESPACE")
    # State
    snapshot_path: Path = key(_PATH, Path(), "AGENT_SNAPSHOT_PATH")
    stop_grace_seconds: int = key(_SECONDS, 20, "MOLECULE_STOP_GRACE_SECS")
    setup_timeout_seconds: int = key(IntegerType(1), 600, "MOLECULE_SETUP_TIMEOUT_SECS")
    # Audit
    audit_log_path: Path = key(_PATH, Path(), "AUDIT_LOG_PATH")
    audit_ledger_db: str = key(_TEXT, "", "AUDIT_LEDGER_DB", secret=True)
    audit_ledger_salt: str = key(_TEXT, "", "AUDIT_LEDGER_SALT", secret=True)
    # Telemetry
    otel_debug: bool = key(_FLAG, False, "OTEL_DEBUG")
    otel_capture_content: bool = key(_FLAG, False, "OTEL_CAPTURE_CONTENT")
    langfuse_host: str = key(_TEXT, "", "LANGFUSE_HOST")
    langfuse_public_key: str = key(_TEXT, "", "LANGFUSE_PUBLIC_KEY", secret=True)
    langfuse_secret_key: str = key(_TEXT, "", "LANGFUSE_SECRET_KEY", secret=True)
    langsmith_tracing: bool = key(_FLAG, False, "LANGSMITH_TRACING")
    log_format: str = key(TextType(("text", "json")), "text", "MOLECULE_LOG_FORMAT")
    # Attachments and MCP
    disable_image_inlining: bool = key(_FLAG, False, "MOLECULE_DISABLE_IMAGE_INLINING")
    auto_attach: bool = key(_FLAG, False, "MOLECULE_AUTO_ATTACH")
    mcp_token: str = key(_TEXT, "", "MOLECULE_MCP_TOKEN", secret=True)
    mcp_python: str = key(_TEXT, "", "MOLECULE_MCP_PYTHON")
    mcp_server_path: str = key(_TEXT, "", "A2A_MCP_SERVER_PATH")
    mcp_port: int = key(_PORT, 9100, "MOLECULE_MCP_PORT")
    mcp_poll_timeout_seconds: int = key(IntegerType(0, 60, clamp=True), 2, "MOLECULE_MCP_POLL_TIMEOUT_SECS")
    agent_name: str = key(_TEXT, "", "MOLECULE_AGENT_NAME")
    agent_description: str = key(_TEXT, "", "MOLECULE_AGENT_DESCRIPTION")
    agent_skills: str = key(_TEXT, "", "MOLECULE_AGENT_SKILLS")
    mcp_workspaces: str = key(_TEXT, "", "MOLECULE_WORKSPACES", secret=True)
    # Smoke test
    smoke_mode: bool = key(_FLAG, False, "MOLECULE_SMOKE_MODE")
    smoke_timeout_seconds: int = key(IntegerType(1), 5, "MOLECULE_SMOKE_TIMEOUT_SECS")
    # Refresh of Git tokens
    token_refresh_interval_seconds: int = key(IntegerType(1), 2700, "TOKEN_REFRESH_INTERVAL_SEC")
    token_refresh_jitter_seconds: int = key(_SECONDS, 120, "TOKEN_REFRESH_JITTER_SEC")
    token_refresh_initial_delay_seconds: int = key(_SECONDS, 60, "TOKEN_REFRESH_INITIAL_DELAY_SEC")

    in_container: bool = False
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    warnings: tuple[str, ...] = ()

    @classmethod
    def read(
        cls,
        env: Mapping[str, str],
        *,
        has_container_mark: Callable[[], bool] = _CONTAINER_MARK.exists,
        is_directory: Callable[[Path], bool] = Path.is_dir,
        is_writable: Callable[[Path], bool] = lambda path: os.access(path, os.W_OK),
    ) -> "Environment":
        """Read the environment. Raises `MissingWorkspaceId`, or `ConfigError` naming every bad variable."""
        reading = ConfigReading("", env)
        found = read_keys(cls, ConfigValue({}), reading)
        if not found.get("workspace_id"):
            raise MissingWorkspaceId
        reading.check()
        in_container = bool(env.get("DOCKER_VERSION", "").strip()) or has_container_mark()
        folder: Path = found.get("config_dir", CONFIG_DIR)
        has_audit_dir = is_directory(AUDIT_DIR) and is_writable(AUDIT_DIR)
        host = "host.docker.internal" if in_container else "localhost"
        defaults: dict[str, Any] = {
            "platform_url": f"http://{host}:8080",
            "work_dir": WORK_DIR if is_directory(WORK_DIR) else folder / "workspace",
            "delegation_results_file": folder / ".delegation_results.jsonl",
            "snapshot_path": folder / ".agent_snapshot.json",
            "audit_log_path": (AUDIT_DIR if has_audit_dir else folder / ".audit") / "audit.jsonl",
            "awareness_namespace": f"workspace:{found['workspace_id']}",
        }
        values = {**defaults, **found}
        for name in ("platform_url", "agent_url"):
            values[name] = values.get(name, "").rstrip("/")
        return cls(**values, in_container=in_container, variables=dict(env), warnings=tuple(reading.warnings))

    @property
    def token_file(self) -> Path:
        """The workspace token."""
        return self.token_dir / ".auth_token"

    @property
    def recovery_file(self) -> Path:
        """The recovery secret."""
        return self.token_dir / ".recovery"

    @property
    def tasks_db(self) -> Path:
        """The A2A tasks."""
        return self.config_dir / ".tasks.db"

    @property
    def delegations_db(self) -> Path:
        """The delegations of this workspace."""
        return self.config_dir / ".delegations.db"

    @property
    def transcripts_dir(self) -> Path:
        """The kit's transcripts, one file for each context."""
        return self.config_dir / ".transcripts"

    @property
    def spend_file(self) -> Path:
        """What the models have cost in this month."""
        return self.config_dir / ".spend.json"

    @property
    def uploads_dir(self) -> Path:
        """The files that came with messages."""
        return self.work_dir / ".molecule" / "chat-uploads"

    @property
    def agents_md(self) -> Path:
        """The generated description of the workspace."""
        return self.work_dir / "AGENTS.md"

    def listen_host(self, a2a: A2AConfig) -> str:
        """Where the server listens: MOLECULE_BIND_HOST, `a2a.bind`, or all addresses in a container only."""
        return self.bind_host or a2a.bind or ("0.0.0.0" if self.in_container else "127.0.0.1")

    def public_url(self, a2a: A2AConfig, port: int) -> str:
        """Where others reach the server, without a slash at the end; `port` is the one that it really has."""
        if stated := self.agent_url or a2a.public_url.strip().rstrip("/"):
            return stated
        host = self.hostname if self.in_container and self.hostname else "127.0.0.1"
        return f"http://{host}:{port}"


def config_dir(env: Mapping[str, str]) -> Path:
    """The config directory, for those who need no more of the environment."""
    directory = variable(_CONFIG_DIR_NAMES, ConfigReading("", env))
    return CONFIG_DIR if directory is None else Path(directory.written)
