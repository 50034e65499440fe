"""The public surface of every package is a list, and the list is true."""

import importlib
import importlib.metadata
from types import ModuleType

import pytest

from scripts import repository

PACKAGES = [(wheel, package) for wheel, packages in repository.DISTRIBUTIONS.items() for package in packages]
NAMES = [package for _, package in PACKAGES]
AGENT_NAMES = {
    "A2AServer", "CursorLostError", "DEFAULT_POLL_INTERVAL", "InboundDelivery", "InboundMessage",
    "InboundSource", "InboxDelivery", "MessageHandler", "PeerInfo", "PollDelivery", "PushDelivery",
    "RemoteAgentClient", "RetryPolicy", "WorkspaceState", "__version__", "errors", "make_idempotency_key",
}  # fmt: skip


def exported(package: ModuleType) -> list[str]:
    return list(package.__all__)


def is_ours(value: object) -> bool:
    """Whether our packages define the value; a constant counts as ours unless it is TYPE_CHECKING."""
    home: str = getattr(value, "__module__", NAMES[0])
    return not isinstance(value, ModuleType | bool) and home.partition(".")[0] in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_exported_name_can_be_imported(name: str) -> None:
    package = importlib.import_module(name)
    assert [exported_name for exported_name in exported(package) if not hasattr(package, exported_name)] == []


@pytest.mark.parametrize("name", NAMES)
def test_exported_names_are_sorted_and_said_once(name: str) -> None:
    names = exported(importlib.import_module(name))
    assert names == sorted(set(names))


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_of_a_package_is_exported(name: str) -> None:
    package = importlib.import_module(name)
    public = {
        public_name
        for public_name, value in vars(package).items()
        if not public_name.startswith("_") and is_ours(value)
    }
    assert public - set(exported(package)) == set()


@pytest.mark.parametrize(("distribution", "name"), PACKAGES)
def test_a_package_says_the_version_of_its_distribution(distribution: str, name: str) -> None:
    assert importlib.import_module(name).__version__ == importlib.metadata.version(distribution)


@pytest.mark.parametrize("name", NAMES)
def test_a_package_tells_type_checkers_that_it_is_typed(name: str) -> None:
    [folder] = importlib.import_module(name).__path__
    assert (repository.ROOT / folder / "py.typed").is_file()


def test_the_agent_package_exports_the_names_its_users_import() -> None:
    assert AGENT_NAMES - set(exported(importlib.import_module("molecule_agent"))) == set()
