"""What agents and the platform share of the plugin SDK loads no more than it needs."""

import subprocess
import sys

import pytest

import molecule_plugin

SHARED = [
    "archive",
    "digest",
    "errors",
    "keys",
    "limits",
    "lock",
    "names",
    "archive_writer",
    "revocations",
    "signatures",
    "file_tree",
    "trust",
]


@pytest.mark.parametrize("module", SHARED)
def test_a_shared_part_loads_without_yaml_and_cryptography(module: str) -> None:
    program = (
        "import sys\n"
        "sys.modules['yaml'] = sys.modules['cryptography'] = None\n"
        f"import molecule_plugin.{module}\n"
        "print(sorted({'requests', 'asyncio', 'molecule_agent'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_published_adaptors_find_the_names_they_import() -> None:
    import plugins_registry
    from plugins_registry.builtins import AgentskillsAdaptor, MCPServerAdaptor, RawDropAdaptor
    from plugins_registry.protocol import InstallContext
    from plugins_registry.raw_drop import RawDropAdaptor as Same

    assert plugins_registry.InstallContext is InstallContext is molecule_plugin.InstallContext
    assert RawDropAdaptor is Same is molecule_plugin.RawDropAdaptor
    assert AgentskillsAdaptor is molecule_plugin.AgentskillsAdaptor
    assert MCPServerAdaptor is molecule_plugin.MCPServerAdaptor
