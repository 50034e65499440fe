"""A platform in memory, to test agents against without a network; installed with the SDK.

`FakePlatform` answers what an agent asks of its platform. With pytest, the fixtures `molecule_platform` and
`molecule_client` are there without an import.
"""

from molecule_agent.testing.callers import caller_token
from molecule_agent.testing.clock import FakeClock
from molecule_agent.testing.http_messages import SeenRequest
from molecule_agent.testing.platform import FakePlatform
from molecule_agent.testing.plugins import make_tarball
from molecule_agent.testing.responses import FakeResponse, FakeSession
from molecule_agent.testing.views import MessageView

__all__ = [
    "FakeClock",
    "FakePlatform",
    "FakeResponse",
    "FakeSession",
    "MessageView",
    "SeenRequest",
    "caller_token",
    "make_tarball",
]
