"""The clients of this process that are in use, by workspace: a server finds its platform through them."""

from typing import Protocol
from weakref import WeakValueDictionary


class PlatformMember(Protocol):
    """What joined a platform."""

    platform_url: str


CLIENTS: "WeakValueDictionary[str, PlatformMember]" = WeakValueDictionary()
