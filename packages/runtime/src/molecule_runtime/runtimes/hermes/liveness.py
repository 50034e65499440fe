"""Whether the gateway that works on a turn is still there: known at once, without polling."""

import asyncio
import contextlib
import time
from typing import Protocol

from molecule_runtime.runtimes.hermes import client
from molecule_runtime.runtimes.hermes.client import HermesUnreachable, as_object

RECOVERY_SECONDS = 60.0
"""How long a turn waits for a gateway that is being started again."""
SETTLE_SECONDS = 0.5
"""What a gateway that stops in order sends last may still be on its way."""
PROBE_SECONDS = 5.0


class SupervisedGateway(Protocol):
    """A gateway that is started again when it ends."""

    async def wait_recovered(self, timeout: float) -> None:
        """Wait while it is being started again."""
        ...


async def wait_for_gateway(adapter: object, until: float) -> None:
    """Wait while the workspace's own gateway is being started again: a turn would only fail meanwhile."""
    gateway: SupervisedGateway | None = getattr(adapter, "gateway", None)
    if gateway is not None:
        await gateway.wait_recovered(min(until - time.monotonic(), RECOVERY_SECONDS))


async def wait_until_gone(host: str, port: int, health_url: str) -> None:
    """Return when the process that listens there has ended, which loses what it had in hand.

    A connection is held open: the kernel closes it with the process. A server may also close one that is
    idle, so its health has the last word; one that is starting has lost everything, too.
    """
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                await reader.read(1)
            finally:
                writer.close()
        await asyncio.sleep(SETTLE_SECONDS)
        try:
            health = await client.send("GET", health_url, {}, PROBE_SECONDS)
        except HermesUnreachable as problem:
            if not problem.is_timeout:
                return
        else:
            if health.status == 503 and as_object(health.json()).get("starting"):
                return
