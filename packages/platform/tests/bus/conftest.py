"""The buses under test and a way to wait for what arrives."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from molecule_platform.bus.memory import MemoryBus
from molecule_platform.bus.nats import NatsBus
from molecule_platform.ports import bus

Eventually = Callable[[Callable[[], bool]], Awaitable[None]]
PATIENCE_SECONDS = 30.0


@dataclass
class Replicas:
    """Where one publishes and where one listens: the same bus, or two replicas'."""

    publisher: bus.Bus
    listener: bus.Bus


@pytest.fixture(params=["memory", "nats within a replica", "nats between replicas"])
async def replicas(request: pytest.FixtureRequest) -> AsyncIterator[Replicas]:
    kind: str = request.param
    first = MemoryBus() if kind == "memory" else NatsBus(request.getfixturevalue("nats_url"))
    second = NatsBus(request.getfixturevalue("nats_url")) if "between" in kind else first
    for one in {first, second}:
        await one.start()
    yield Replicas(publisher=first, listener=second)
    for one in {first, second}:
        await one.close()


@pytest.fixture
def eventually() -> Eventually:
    async def wait(holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"waited {PATIENCE_SECONDS} s for it"
            await asyncio.sleep(0.005)

    return wait
