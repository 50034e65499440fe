"""Every key of config.yaml has an effect, alone, and null means its default."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from molecule_runtime.domain.config import WorkspaceConfig
from molecule_runtime.domain.config_keys import BlockType, declared_keys
from molecule_runtime.settings.config import load_config

CHANGED: dict[str, tuple[str, Any]] = {
    "name": ("Finance", "Finance"),
    "description": ("Counts money", "Counts money"),
    "role": ("accountant", "accountant"),
    "version": ("2.0", "2.0"),
    "tier": ("0", 0),
    "model": ("openai:gpt-5", "openai:gpt-5"),
    "runtime": ("echo", "echo"),
    "runtime_config.command": ("serve", "serve"),
    "runtime_config.args": ("[--port, 80]", ["--port", "80"]),
    "runtime_config.required_env": ("[A, {any_of: [B, C]}]", ["A", {"any_of": ["B", "C"]}]),
    "runtime_config.timeout": ("60", 60),
    "runtime_config.model": ("groq:llama", "groq:llama"),
    "runtime_config.auth_token_env": ("TOKEN", "TOKEN"),
    "runtime_config.auth_token_file": (".token", ".token"),
    "runtime_config.provider_url": ("http://models.test/v1", "http://models.test/v1"),
    "runtime_config.api_mode": ("openai-responses", "openai-responses"),
    "runtime_config.max_concurrent_turns": ("4", 4),
    "runtime_config.max_queued_turns": ("0", 0),
    "runtime_config.models": ("[fast, {id: slow}]", ["fast", {"id": "slow"}]),
    "initial_prompt": ("Say hello", "Say hello"),
    "initial_prompt_file": ("first.md", "first.md"),
    "idle_prompt": ("Look around", "Look around"),
    "idle_prompt_file": ("idle.md", "idle.md"),
    "idle_interval_seconds": ("45", 45),
    "skills": ("[search]", ["search"]),
    "plugins": ("[rules]", ["rules"]),
    "tools": ("['!run_code']", ["!run_code"]),
    "prompt_files": ("[a.md, b.md]", ["a.md", "b.md"]),
    "shared_context": ("[plan.md]", ["plan.md"]),
    "memory.backend": ("file", "file"),
    "memory.path": ("notes", "notes"),
    "env.required": ("[KEY]", ["KEY"]),
    "env.optional": ("[OTHER]", ["OTHER"]),
    "a2a.port": ("0", 0),
    "a2a.streaming": ("no", False),
    "a2a.push_notifications": ("false", False),
    "a2a.public_url": ("https://agent.test", "https://agent.test"),
    "a2a.bind": ("0.0.0.0", "0.0.0.0"),
    "delegation.retry_attempts": ("1", 1),
    "delegation.retry_delay": ("0.5", 0.5),
    "delegation.timeout": ("60", 60.0),
    "delegation.escalate": ("off", False),
    "sandbox.backend": ("podman", "podman"),
    "sandbox.memory_limit": ("1g", "1g"),
    "sandbox.timeout": ("5", 5),
    "sandbox.network": ("true", True),
    "rbac.roles": ("[admin]", ["admin"]),
    "rbac.allowed_actions": ("{writer: [memory.write]}", {"writer": ["memory.write"]}),
    "hitl.channels": ("[{type: slack}]", [{"type": "slack"}]),
    "hitl.default_timeout": ("10", 10),
    "hitl.bypass_roles": ("[admin]", ["admin"]),
    "governance.enabled": ("true", True),
    "governance.toolkit": ("other", "other"),
    "governance.policy_endpoint": ("http://policy.test", "http://policy.test"),
    "governance.policy_mode": ("strict", "strict"),
    "governance.policy_file": ("policy.json", "policy.json"),
    "governance.blocked_patterns": ("[rm]", ["rm"]),
    "governance.max_tool_calls_per_task": ("3", 3),
    "security_scan.mode": ("block", "block"),
    "security_scan.fail_open_if_no_scanner": ("false", False),
    "compliance.mode": ("''", ""),
    "compliance.prompt_injection": ("block", "block"),
    "compliance.max_tool_calls_per_task": ("3", 3),
    "compliance.max_task_duration_seconds": ("9", 9),
    "sub_workspaces": ("[{name: child}]", [{"name": "child"}]),
    "effort": ("high", "high"),
    "task_budget": ("20000", 20_000),
    "observability.otlp_endpoint": ("http://traces.test", "http://traces.test"),
    "observability.service_name": ("finance", "finance"),
    "observability.sample_ratio": ("0.1", 0.1),
    "consolidation.enabled": ("on", True),
    "consolidation.interval": ("60", 60),
    "consolidation.threshold": ("5", 5),
    "template_schema_version": ("2", 2),
}


def paths(type_: type[Any], prefix: str = "") -> list[str]:
    found: list[str] = []
    for name, key in declared_keys(type_).items():
        nested = isinstance(key.type, BlockType)
        found += paths(key.type.dataclass, f"{name}.") if isinstance(key.type, BlockType) else []
        found += [] if nested else [prefix + name]
    return found


def at(config: WorkspaceConfig, path: str) -> Any:
    value: Any = config
    for name in path.split("."):
        value = getattr(value, name)
    return value


def load(folder: Path, text: str, **env: str) -> WorkspaceConfig:
    (folder / "config.yaml").write_text(text)
    return load_config(folder, env)


def test_every_declared_key_is_in_this_table() -> None:
    assert sorted(paths(WorkspaceConfig)) == sorted(CHANGED)


@pytest.mark.parametrize("path", CHANGED)
def test_a_key_changed_alone_changes_only_the_value_it_names(tmp_path: Path, path: str) -> None:
    written, expected = CHANGED[path]
    block, dot, name = path.rpartition(".")
    text = f"{block}: {{{name}: {written}}}" if dot else f"{name}: {written}"
    config, untouched = load(tmp_path, text), WorkspaceConfig()
    assert at(config, path) == expected != at(untouched, path)
    follows = {"model"} if path == "runtime_config.model" else set[str]()
    changed = {other for other in CHANGED if at(config, other) != at(untouched, other)}
    assert changed - follows == {path}


@pytest.mark.parametrize("name", list(declared_keys(WorkspaceConfig)))
@pytest.mark.parametrize("null", ["null", "~", ""])
def test_null_means_the_default(tmp_path: Path, name: str, null: str) -> None:
    assert load(tmp_path, f"{name}: {null}") == WorkspaceConfig()


@pytest.mark.parametrize("path", CHANGED)
def test_null_inside_a_block_means_the_default(tmp_path: Path, path: str) -> None:
    block, dot, name = path.rpartition(".")
    assert load(tmp_path, f"{block}: {{{name}: null}}" if dot else f"{name}: null") == WorkspaceConfig()


@pytest.mark.parametrize("text", ["", "# nothing", "---\n", "{}", "null"])
def test_an_empty_file_is_all_defaults(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text) == WorkspaceConfig()


def test_two_configurations_share_no_lists() -> None:
    first, second = WorkspaceConfig(), WorkspaceConfig()
    first.rbac.roles.append("admin")
    first.hitl.channels[0]["type"] = "slack"
    first.runtime_config.extra["a"] = 1
    assert second == WorkspaceConfig()


def test_the_block_for_an_adapter_has_known_and_unknown_keys_side_by_side(tmp_path: Path) -> None:
    config = load(tmp_path, "runtime_config: {timeout: 5, entrypoint: 'a:B', extra: {x: 1}}")
    block = config.runtime_config.to_dict()
    assert (block["timeout"], block["entrypoint"], block["extra"]) == (5, "a:B", {"x": 1})
    known = {each.name for each in dataclasses.fields(config.runtime_config)} - {"extra"}
    assert set(block) == known | {"entrypoint", "extra"}
    assert config.warnings == []
