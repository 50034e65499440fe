"""A TCP proxy between a program and a server, whose network a test breaks and heals.

It is a process of its own: on a thread of the test every byte would wait for the test's own work.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import uvloop

STOP_SECONDS = 10.0


class TcpProxy:
    """Listens on a loopback port and relays to another, in a `with` block."""

    def __init__(self, upstream_port: int) -> None:
        self.upstream_port = upstream_port
        self.port = 0

    def __enter__(self) -> "TcpProxy":
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.tcp_proxy", str(self.upstream_port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.heal()
        return self

    def __exit__(self, *exc_info: object) -> None:
        # It ends with its input.
        self._process.communicate(timeout=STOP_SECONDS)

    @property
    def upstream_ports(self) -> set[int]:
        """The local ports under which the server knows the connections that are open now."""
        return set(self._do("list_upstream_ports"))

    def refuse(self) -> None:
        """Reset every connection and refuse new ones."""
        self._do("refuse")

    def hold(self) -> None:
        """Hold back all bytes until the network is healed, as a partition does."""
        self._do("hold")

    def swallow(self) -> None:
        """Lose all bytes: each connection that sends or receives some is dead from then on."""
        self._do("swallow")

    def kill_open(self) -> None:
        """Lose the bytes of the connections that are open now. New ones work, as after a failover."""
        self._do("kill_open")

    def heal(self) -> None:
        """Relay again. What was held back arrives; connections that lost bytes stay dead."""
        self.port = self._do("heal")

    def _do(self, command: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@dataclass(eq=False)
class _Connection:
    """One client of the proxy. Dead: its bytes are swallowed, both ways, for as long as it is open."""

    near: asyncio.StreamWriter
    far: asyncio.StreamWriter | None = None
    is_dead: bool = False
    far_port: int = 0


@dataclass
class _Relay:
    """The network itself. Each command of the proxy is a coroutine."""

    upstream_port: int
    port: int = 0
    flows: asyncio.Event = field(default_factory=asyncio.Event)
    swallows: bool = False
    connections: set[_Connection] = field(default_factory=set[_Connection])
    server: asyncio.Server | None = None

    async def list_upstream_ports(self) -> list[int]:
        return [connection.far_port for connection in self.connections]

    async def refuse(self) -> None:
        server, self.server = self.server, None
        if server is not None:
            server.close()
        for connection in list(self.connections):
            _abort(connection)

    async def hold(self) -> None:
        self.flows.clear()

    async def swallow(self) -> None:
        self.swallows = True

    async def kill_open(self) -> None:
        for connection in self.connections:
            connection.is_dead = True

    async def heal(self) -> int:
        self.swallows = False
        self.flows.set()
        if self.server is None:
            self.server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=512)
            self.port = self.server.sockets[0].getsockname()[1]
        return self.port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(writer)
        self.connections.add(connection)
        try:
            await self._relay_both_ways(reader, connection)
        except OSError:
            pass
        finally:
            self.connections.discard(connection)
            _abort(connection)

    async def _relay_both_ways(self, reader: asyncio.StreamReader, connection: _Connection) -> None:
        first = b""
        while not self.flows.is_set():
            if (more := await self._read_while_held(reader)) is None:
                return
            first += more
        if self.swallows:
            while await reader.read(65536):
                pass
            return
        far_reader, far = await asyncio.open_connection("127.0.0.1", self.upstream_port)
        connection.far, connection.far_port = far, far.get_extra_info("sockname")[1]
        far.write(first)
        pumps = [
            asyncio.create_task(self._pump(reader, far, connection)),
            asyncio.create_task(self._pump(far_reader, connection.near, connection)),
        ]
        # Either end that closes closes the other.
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)

    async def _read_while_held(self, reader: asyncio.StreamReader) -> bytes | None:
        """Return what a new client says while bytes are held back; None when it left."""
        reading = asyncio.ensure_future(reader.read(65536))
        flowing = asyncio.ensure_future(self.flows.wait())
        try:
            await asyncio.wait({reading, flowing}, return_when=asyncio.FIRST_COMPLETED)
            return (reading.result() or None) if reading.done() else b""
        finally:
            for task in (reading, flowing):
                task.cancel()
            await asyncio.gather(reading, flowing, return_exceptions=True)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: _Connection
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self.flows.wait()
                if self.swallows or connection.is_dead:
                    connection.is_dead = True
                    continue
                writer.write(data)
                await writer.drain()
            await self.flows.wait()


def _abort(connection: _Connection) -> None:
    for writer in (connection.near, connection.far):
        if writer is not None:
            writer.transport.abort()


async def _main(upstream_port: int) -> None:
    relay = _Relay(upstream_port)
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    while line := await commands.readline():
        print(json.dumps(await getattr(relay, line.decode().strip())()), flush=True)


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1])))
