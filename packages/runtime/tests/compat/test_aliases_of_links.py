"""The original import paths of the links are the same module objects."""

import importlib
import subprocess
import sys

import pytest

from tests.rows import each_row


@each_row(
    ("alias", "module", "names"),
    (
        (
            "platform_auth",
            "tokens",
            "get_token save_token auth_headers self_source_headers clear_cache refresh_cache",
        ),
        ("platform_client", "platform_client", "PlatformClient"),
        (
            "heartbeat",
            "heartbeat",
            "HeartbeatLoop _runtime_metadata_payload HEARTBEAT_INTERVAL MAX_CONSECUTIVE_FAILURES"
            " MAX_SEEN_DELEGATION_IDS SELF_MESSAGE_COOLDOWN",
        ),
    ),
)
def test_an_alias_is_the_module_itself(alias: str, module: str, names: str) -> None:
    aliased = importlib.import_module(f"molecule_runtime.{alias}")
    assert aliased is importlib.import_module(f"molecule_runtime.links.{module}")
    assert aliased is getattr(importlib.import_module("molecule_runtime"), alias)
    assert [name for name in names.split() if not hasattr(aliased, name)] == []


def test_a_patch_through_one_path_is_seen_through_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("molecule_runtime.platform_auth.get_token", lambda: "patched")
    tokens = importlib.import_module("molecule_runtime.links.tokens")
    assert tokens.auth_headers() == {"Authorization": "Bearer patched"}


def test_importing_the_links_loads_nothing_heavy() -> None:
    code = (
        "import sys, molecule_runtime.heartbeat, molecule_runtime.platform_auth,"
        " molecule_runtime.links.callers, molecule_runtime.links.delegation_results,"
        " molecule_runtime.links.registration\n"
        "heavy = {'httpx', 'httpcore', 'cryptography', 'starlette', 'a2a', 'requests', 'aiohttp'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
