"""The listening socket and the HTTP server of `molecule up`."""

import errno
import socket
from typing import TYPE_CHECKING

from molecule_a2a import Deadlines, HttpServer, PortTaken, bind
from molecule_platform.cli import problems

if TYPE_CHECKING:
    from molecule_platform.app import Platform

GRACE_SECONDS = 5
IDLE_SECONDS = 5


def listen(host: str, port: int) -> socket.socket:
    """Bind the port now, so that a port in use is found before anything is opened. Raises a `Problem`."""
    try:
        return bind(host, port)
    except PortTaken as problem:
        if problem.errno == errno.EADDRINUSE:
            text = f"port {port} on {host} is taken: stop what uses it or choose another with --port"
            raise problems.Problem(text, "port-taken") from problem
        if problem.errno == errno.EACCES:
            text = f"port {port} is not allowed for this user: choose one above 1023 with --port"
            raise problems.Problem(text, "port-refused") from problem
        text = f"{host} is no address of this machine: choose another with --host, such as 127.0.0.1"
        raise problems.Problem(f"{text} or 0.0.0.0", "host-refused") from problem


def base_url(host: str, port: int) -> str:
    """Where a person on this machine opens the platform."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, host)
    return f"http://{f'[{shown}]' if ':' in shown and not shown.startswith('[') else shown}:{port}"


def make_server(platform: "Platform", deadlines: Deadlines | None = None) -> HttpServer:
    """Make the server of a platform, with the limits of its settings."""
    return HttpServer(
        platform,
        deadlines=deadlines or Deadlines(idle=IDLE_SECONDS),
        max_connections=platform.edge.max_connections,
        is_exempt=platform.edge.is_proxy,
        websockets=True,
    )
