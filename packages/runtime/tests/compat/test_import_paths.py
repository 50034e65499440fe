"""Programs of the first generation find every name where they import it, and importing stays cheap."""

import importlib
import subprocess
import sys
from types import ModuleType

import pytest

NAMES = {
    "molecule_runtime.adapters.base": "BaseAdapter AdapterConfig SetupResult RuntimeCapabilities",
    "molecule_runtime.adapters": "get_adapter discover_adapters list_adapters",
    "molecule_runtime.shared_runtime": "extract_message_text extract_history build_task_text"
    " format_conversation_history append_peer_guidance summarize_peer_cards"
    " build_peer_section brief_task set_current_task",
    "molecule_runtime.executor_helpers": "extract_message_text new_response_message recall_memories"
    " commit_memory read_delegation_results set_current_task get_system_prompt get_a2a_instructions"
    " get_hma_instructions brief_summary classify_subprocess_error sanitize_agent_error auto_push_hook"
    " ensure_workspace_writable get_mcp_server_path get_http_client reset_http_client_for_tests"
    " WORKSPACE_MOUNT CONFIG_MOUNT CHAT_UPLOADS_DIR MAX_INLINE_ATTACHMENT_BYTES MEMORY_RECALL_LIMIT"
    " MEMORY_CONTENT_MAX_CHARS BRIEF_SUMMARY_MAX_LEN PLATFORM_HTTP_TIMEOUT_S",
    "molecule_runtime.tools": "ToolSpec ToolSet tool",
    "molecule_runtime.prompt": "build_system_prompt",
    "molecule_runtime.coordinator": "get_children get_parent_context build_children_description"
    " build_team_routing_payload route_task_to_team",
    "molecule_runtime.policies.routing": "build_team_routing_payload",
    "molecule_runtime.plugins": "load_plugins LoadedPlugins",
    "molecule_runtime.plugins_registry": "resolve InstallContext InstallResult PluginAdaptor",
    "molecule_runtime.plugins_registry.builtins": "AgentskillsAdaptor MCPServerAdaptor RawDropAdaptor",
    "molecule_runtime.plugins_registry.protocol": "InstallContext InstallResult PluginAdaptor",
    "molecule_runtime.plugins_registry.raw_drop": "RawDropAdaptor",
    "molecule_runtime.skill_loader.loader": "load_skills parse_skill_frontmatter SkillMetadata LoadedSkill",
    "molecule_runtime.builtin_tools.delegation": "delegate_to_workspace check_delegation_status",
}
HEAVY = [
    "a2a",
    "langchain",
    "langchain_core",
    "pydantic_ai",
    "aiohttp",
    "sqlalchemy",
    "opentelemetry",
    "httpx",
    "starlette",
    "yaml",
]
LIGHT = [name for name in NAMES if "plugins_registry." not in name]


@pytest.mark.parametrize("path", NAMES)
def test_every_name_is_where_programs_import_it(path: str) -> None:
    module = importlib.import_module(path)
    assert [name for name in NAMES[path].split() if not hasattr(module, name)] == []


@pytest.mark.parametrize(
    "paths",
    [
        (
            "molecule_runtime.adapters.base",
            "molecule_runtime.adapter_base",
            "molecule_runtime.kit.setup.adapter",
        ),
        (
            "molecule_runtime.adapters.shared_runtime",
            "molecule_runtime.shared_runtime",
            "molecule_runtime.kit.turns.shared_runtime",
        ),
        ("molecule_runtime.plugins_registry.builtins", "molecule_plugin.builtins"),
        ("molecule_runtime.plugins_registry.protocol", "molecule_plugin.protocol"),
        ("molecule_runtime.plugins_registry.raw_drop", "molecule_plugin.raw_drop"),
    ],
)
def test_paths_of_one_module_are_the_same_module(
    paths: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = [importlib.import_module(path) for path in paths]
    assert all(other is first for other in others)
    monkeypatch.setattr(first, "a_patched_name", object(), raising=False)
    assert all(other.__dict__["a_patched_name"] is first.__dict__["a_patched_name"] for other in others)


def test_an_alias_is_the_same_module_by_every_form_of_import() -> None:
    import molecule_runtime.adapters.base as by_as
    from molecule_runtime.adapters import base

    module: ModuleType = importlib.import_module("molecule_runtime.kit.setup.adapter")
    assert base is by_as is module


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    for path in ("molecule_runtime.executor_helpers", "molecule_runtime.plugins_registry"):
        with pytest.raises(AttributeError, match="no_such_name"):
            _ = importlib.import_module(path).no_such_name


@pytest.mark.parametrize("path", LIGHT)
def test_importing_loads_no_framework(path: str) -> None:
    code = f"import {path}, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
