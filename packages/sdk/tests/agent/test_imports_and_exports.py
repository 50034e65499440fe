"""What a program gets from `import molecule_agent`, and what it does not have to pay for."""

import subprocess
import sys
from importlib import metadata

import molecule_agent
from molecule_agent import errors

FORBIDDEN = (
    "yaml",
    "cryptography",
    "asyncio",
    "http.server",
    "molecule_plugin",
    "tarfile",
    "uuid",
    "argparse",
)
PROMISED = [
    "RemoteAgentClient",
    "WorkspaceState",
    "PeerInfo",
    "InboundMessage",
    "InboundSource",
    "InboundDelivery",
    "MessageHandler",
    "PollDelivery",
    "PushDelivery",
    "InboxDelivery",
    "Answer",
    "NeedInput",
    "Fail",
    "Sender",
    "HistoryItem",
    "AmbiguousPeerError",
    "strip_a2a_boundary",
    "A2AServer",
    "CursorLostError",
    "RetryPolicy",
    "DEFAULT_POLL_INTERVAL",
    "make_idempotency_key",
    "compute_plugin_sha256",
    "verify_plugin_sha256",
    "errors",
    "__version__",
]


def loaded_by(statement: str) -> set[str]:
    program = (
        f"import sys, requests; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_sdk_loads_only_requests_and_the_standard_library_and_nothing_heavy() -> None:
    loaded = loaded_by("import molecule_agent")
    assert not loaded & set(FORBIDDEN)
    foreign = {name.partition(".")[0] for name in loaded} - {"molecule_agent", "molecule_wire"}
    assert foreign <= set(sys.stdlib_module_names)


def test_a_client_that_only_calls_out_loads_no_server_and_no_event_loop() -> None:
    loaded = loaded_by("import molecule_agent as m; m.RemoteAgentClient('w', 'http://127.0.0.1:1')")
    unneeded = {"asyncio", "http.server", "molecule_agent.a2a_server", "molecule_agent.inbox"}
    assert not loaded & (unneeded | {"molecule_plugin", "molecule_agent.plugins", "yaml"})


def test_every_exported_name_exists_and_every_promised_name_is_exported() -> None:
    assert all(hasattr(molecule_agent, name) for name in molecule_agent.__all__)
    assert set(PROMISED) <= set(molecule_agent.__all__)
    assert set(molecule_agent.__all__) <= set(dir(molecule_agent))
    assert not hasattr(molecule_agent, "install_everything")


def test_every_error_class_is_exported() -> None:
    classes = {
        name for name, value in vars(errors).items() if isinstance(value, type) and name.endswith("Error")
    }
    assert {name for name in classes if not name.startswith("_")} <= set(molecule_agent.__all__)


def test_the_version_is_that_of_the_distribution() -> None:
    assert molecule_agent.__version__ == metadata.version("molecule-ai-sdk")
