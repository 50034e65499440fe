"""The configuration of a workspace, config.yaml: its keys, their types, their defaults, their variables.

The fields are the table of the contract; the reader walks them. The classes are not frozen because adapters
written for earlier versions change them.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from molecule_runtime.domain.config_keys import block, key
from molecule_runtime.domain.config_types import (
    BooleanType,
    EntryListType,
    EnvRequirement,
    EnvRequirementListType,
    IntegerType,
    NumberType,
    SwitchType,
    TextListsType,
    TextListType,
    TextType,
    TierType,
)

DEFAULT_MODEL = "anthropic:claude-opus-4-7"
DEFAULT_RUNTIME = "llm"
DEFAULT_PROMPT_FILE = "system-prompt.md"
SUPPORTED_TEMPLATE_SCHEMA = 1
SANDBOX_BACKENDS = ("auto", "microsandbox", "bubblewrap", "podman", "docker", "subprocess", "e2b", "none")

_TEXT = TextType()
_COUNT = IntegerType(0)
_FLAG = BooleanType()
_TEXTS = TextListType()


@dataclass
class RuntimeConfig:
    """`runtime_config`: what the engine is told. Keys that are not known here are kept in `extra`."""

    command: str = key(_TEXT, "")
    args: list[str] = key(TextListType(numbers=True), list[str]())
    required_env: list[EnvRequirement] = key(EnvRequirementListType(), list[EnvRequirement]())
    timeout: int = key(_COUNT, 0)
    model: str = key(_TEXT, "")
    auth_token_env: str = key(_TEXT, "")
    auth_token_file: str = key(_TEXT, "")
    provider_url: str = key(_TEXT, "")
    api_mode: str = key(_TEXT, "")
    max_concurrent_turns: int = key(IntegerType(1), 1)
    max_queued_turns: int = key(_COUNT, 32)
    models: list[Any] = key(EntryListType(texts=True), list[Any]())
    extra: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_dict(self) -> dict[str, Any]:
        """The block as an adapter gets it: known keys and unknown ones side by side."""
        values = asdict(self)
        return {**values.pop("extra"), **values}


@dataclass
class MemoryConfig:
    """`memory`: where the memory tools keep what they are told."""

    backend: str = key(TextType(("platform", "file", "awareness")), "platform")
    path: str = key(_TEXT, "")


@dataclass
class EnvConfig:
    """`env`: the environment variables that the workspace needs, or can use."""

    required: list[EnvRequirement] = key(EnvRequirementListType(), list[EnvRequirement]())
    optional: list[EnvRequirement] = key(EnvRequirementListType(), list[EnvRequirement]())


@dataclass
class A2AConfig:
    """`a2a`: the agent's own server. Port 0 takes a free one."""

    port: int = key(IntegerType(), 8000)
    streaming: bool = key(_FLAG, True)
    push_notifications: bool = key(_FLAG, True)
    public_url: str = key(_TEXT, "")
    bind: str = key(_TEXT, "")


@dataclass
class DelegationConfig:
    """`delegation`: how the delegation tools try, and for how long, in seconds."""

    retry_attempts: int = key(_COUNT, 3, "DELEGATION_RETRY_ATTEMPTS")
    retry_delay: float = key(NumberType(), 5.0, "DELEGATION_RETRY_DELAY")
    timeout: float = key(NumberType(), 300.0, "DELEGATION_TIMEOUT")
    escalate: bool = key(_FLAG, True)


@dataclass
class SandboxConfig:
    """`sandbox`: where `run_code` runs code. `subprocess`, which isolates nothing, must be named."""

    backend: str = key(TextType(SANDBOX_BACKENDS), "auto", "MOLECULE_SANDBOX_BACKEND", "SANDBOX_BACKEND")
    memory_limit: str = key(TextType(numbers=True), "256m", "SANDBOX_MEMORY_LIMIT")
    timeout: int = key(_COUNT, 30, "SANDBOX_TIMEOUT")
    network: bool = key(_FLAG, False)


@dataclass
class RBACConfig:
    """`rbac`: the roles of the agent. A role in `allowed_actions` may do only what is listed there."""

    roles: list[str] = key(_TEXTS, ["operator"])
    allowed_actions: dict[str, list[str]] = key(TextListsType(), dict[str, list[str]]())


@dataclass
class HITLConfig:
    """`hitl`: how people are asked for approval."""

    channels: list[dict[str, Any]] = key(EntryListType(), [dict[str, Any](type="dashboard")])
    default_timeout: int = key(_COUNT, 300, "APPROVAL_TIMEOUT")
    bypass_roles: list[str] = key(_TEXTS, list[str]())


@dataclass
class GovernanceConfig:
    """`governance`: a policy beside the roles."""

    enabled: bool = key(_FLAG, False)
    toolkit: str = key(_TEXT, "microsoft")
    policy_endpoint: str = key(_TEXT, "")
    policy_mode: str = key(TextType(("strict", "permissive", "audit")), "audit")
    policy_file: str = key(_TEXT, "")
    blocked_patterns: list[str] = key(_TEXTS, list[str]())
    max_tool_calls_per_task: int = key(_COUNT, 50)


@dataclass
class SecurityScanConfig:
    """`security_scan`: what happens to a skill that the scanner finds fault with."""

    mode: str = key(SwitchType(("block", "warn", "off"), on="warn", off="off"), "warn")
    fail_open_if_no_scanner: bool = key(_FLAG, True)


@dataclass
class ComplianceConfig:
    """`compliance`: checks of input, output and the number of tool calls; an empty `mode` turns them off."""

    mode: str = key(SwitchType(("owasp_agentic", ""), on="owasp_agentic", off=""), "owasp_agentic")
    prompt_injection: str = key(TextType(("detect", "block")), "detect")
    max_tool_calls_per_task: int = key(_COUNT, 50)
    max_task_duration_seconds: int = key(_COUNT, 300)


@dataclass
class ObservabilityConfig:
    """`observability`: where traces go."""

    otlp_endpoint: str = key(_TEXT, "", "OTEL_EXPORTER_OTLP_ENDPOINT")
    service_name: str = key(_TEXT, "")
    sample_ratio: float = key(NumberType(0.0, 1.0), 1.0)


@dataclass
class ConsolidationConfig:
    """`consolidation`: how often the memory is condensed, in seconds, and from how many entries on."""

    enabled: bool = key(_FLAG, False)
    interval: int = key(_COUNT, 300, "CONSOLIDATION_INTERVAL")
    threshold: int = key(_COUNT, 10, "CONSOLIDATION_THRESHOLD")


@dataclass
class WorkspaceConfig:
    """config.yaml. `extra` keeps unknown keys; `warnings` are what its author should know."""

    name: str = key(_TEXT, "Workspace")
    description: str = key(_TEXT, "")
    role: str = key(_TEXT, "")
    version: str = key(TextType(numbers=True), "1.0.0")
    tier: int = key(TierType(), 1)
    model: str = key(_TEXT, DEFAULT_MODEL, "MODEL_PROVIDER")
    runtime: str = key(_TEXT, DEFAULT_RUNTIME)
    runtime_config: RuntimeConfig = block(RuntimeConfig, expands=True, is_open=True)
    initial_prompt: str = key(_TEXT, "")
    initial_prompt_file: str = key(_TEXT, "")
    idle_prompt: str = key(_TEXT, "")
    idle_prompt_file: str = key(_TEXT, "")
    idle_interval_seconds: int = key(IntegerType(30, clamp=True), 600)
    skills: list[str] = key(_TEXTS, list[str]())
    plugins: list[str] = key(_TEXTS, list[str]())
    tools: list[str] = key(_TEXTS, list[str]())
    prompt_files: list[str] = key(
        TextListType(instead_of_empty=(DEFAULT_PROMPT_FILE,)), [DEFAULT_PROMPT_FILE]
    )
    shared_context: list[str] = key(_TEXTS, list[str]())
    memory: MemoryConfig = block(MemoryConfig)
    env: EnvConfig = block(EnvConfig)
    a2a: A2AConfig = block(A2AConfig)
    delegation: DelegationConfig = block(DelegationConfig)
    sandbox: SandboxConfig = block(SandboxConfig, expands=True)
    rbac: RBACConfig = block(RBACConfig)
    hitl: HITLConfig = block(HITLConfig)
    governance: GovernanceConfig = block(GovernanceConfig)
    security_scan: SecurityScanConfig = block(SecurityScanConfig, scalar="mode")
    compliance: ComplianceConfig = block(ComplianceConfig)
    sub_workspaces: list[dict[str, Any]] = key(EntryListType(), list[dict[str, Any]]())
    effort: str = key(TextType(("", "low", "medium", "high", "xhigh", "max")), "")
    task_budget: int = key(IntegerType(20_000, or_zero=True), 0)
    observability: ObservabilityConfig = block(ObservabilityConfig, expands=True)
    consolidation: ConsolidationConfig = block(ConsolidationConfig)
    template_schema_version: int = key(_COUNT, 1)
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    warnings: list[str] = field(default_factory=list[str], repr=False, compare=False)
