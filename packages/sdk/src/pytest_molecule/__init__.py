"""Fixtures for tests of agents: `molecule_platform` and `molecule_client`.

pytest imports this file in every run of every project that has the SDK, so it imports nothing else until a
test asks for a fixture.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from molecule_agent import RemoteAgentClient
    from molecule_agent.testing import FakePlatform


@pytest.fixture
def molecule_platform() -> "FakePlatform":
    """A platform in memory."""
    from molecule_agent.testing import FakePlatform

    return FakePlatform()


@pytest.fixture
def molecule_client(
    molecule_platform: "FakePlatform", tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[RemoteAgentClient]":
    """An agent that has registered with `molecule_platform`, without sockets; its clock is the platform's."""
    from molecule_agent import RemoteAgentClient

    client = RemoteAgentClient(
        molecule_platform.create_workspace(),
        "https://molecule.test",
        token_dir=tmp_path_factory.mktemp("molecule"),
        session=molecule_platform.session(),
        clock=molecule_platform.clock,
    )
    with client:
        client.register()
        yield client
