"""The short commands: ask the platform one thing and print the answer."""

import dataclasses
import json
import sys
from collections.abc import Callable

import requests

from molecule_agent import errors
from molecule_agent.cli import connect, flags
from molecule_agent.client import RemoteAgentClient
from molecule_wire.a2a import text

_SHOWN = ("id", "name", "role", "status", "delivery_mode", "url", "parent_id", "pending")


def whoami(client: RemoteAgentClient, args: object) -> None:
    """Print the workspace as the platform sees it."""
    row = client.whoami()
    for name in _SHOWN:
        print(f"{name}: {row.get(name, '')}")


def peers(client: RemoteAgentClient, args: object) -> None:
    """Print the workspaces this one may call."""
    found = client.get_peers()
    if flags.plain(args, "json") is True:
        print(json.dumps([dataclasses.asdict(peer) for peer in found], indent=2))
        return
    for peer in found:
        print(f"{peer.id}  {peer.status:<14}  {peer.name}  {peer.role}".rstrip())


def call(client: RemoteAgentClient, args: object) -> None:
    """Send a peer a text; print its answer, or that it is not there yet."""
    peer, said = flags.text(args, "peer"), flags.text(args, "text")
    if flags.plain(args, "wait_for_answer") is True:
        print(client.ask_peer(peer, said))
        return
    envelope = client.call_peer(peer, said)
    if "error" in envelope:
        raise errors.A2AError(-32603, json.dumps(envelope["error"]))
    answer = text.text_of(envelope.get("result"))
    print(answer or "queued; --wait waits for the answer")


def run(command: Callable[[RemoteAgentClient, object], None], args: object) -> int:
    """Run a command; returns the exit code."""
    try:
        with connect.open_client(args) as client:
            command(client, args)
    except (flags.UsageError, errors.ConfigurationError) as error:
        return _fail(error, 2)
    except (errors.MoleculeError, requests.RequestException) as error:
        return _fail(error, 1)
    return 0


def _fail(error: Exception, code: int) -> int:
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
    return code
