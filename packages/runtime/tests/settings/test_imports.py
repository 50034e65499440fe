"""Compatibility paths are the modules themselves, and importing settings loads nothing heavy."""

import importlib
import subprocess
import sys

import pytest

ALIASES = {
    "config": "settings.config",
    "preflight": "settings.preflight",
    "agents_md": "settings.agents_md",
    "models": "settings.endpoints",
}
WITHOUT_YAML = ["domain.config", "settings.environment", "settings.endpoints", "models", "preflight"]
WITH_YAML = ["config", "agents_md", "settings.yaml_files"]
HEAVY = {"a2a", "aiohttp", "asyncio", "httpx", "langchain", "pydantic", "sqlalchemy", "starlette", "uvicorn"}


@pytest.mark.parametrize("alias", ALIASES)
def test_a_compatibility_path_is_the_same_module(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old = importlib.import_module(f"molecule_runtime.{alias}")
    new = importlib.import_module(f"molecule_runtime.{ALIASES[alias]}")
    assert old is new
    monkeypatch.setattr(f"molecule_runtime.{alias}.patched", "seen", raising=False)
    assert vars(new)["patched"] == "seen"


def test_the_names_of_the_contract_are_at_their_paths() -> None:
    from molecule_runtime import config, models, preflight
    from molecule_runtime.agents_md import generate_agents_md

    blocks = "RBAC HITL Delegation A2A Sandbox Runtime Governance SecurityScan Compliance Workspace"
    assert all(hasattr(config, f"{block}Config") for block in blocks.split())
    assert issubclass(config.ConfigError, ValueError)
    assert callable(config.load_config)
    assert callable(models.resolve_endpoint)
    assert callable(preflight.run_preflight)
    assert callable(preflight.render_preflight_report)
    assert callable(generate_agents_md)


@pytest.mark.parametrize("module", WITHOUT_YAML + WITH_YAML)
def test_an_import_loads_nothing_heavy(module: str) -> None:
    unwanted = HEAVY | ({"yaml"} if module in WITHOUT_YAML else set[str]())
    program = (
        f"import sys, molecule_runtime.{module}\n"
        f"print(sorted({unwanted!r} & {{name.partition('.')[0] for name in sys.modules}}))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
