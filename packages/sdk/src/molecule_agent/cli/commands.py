"""The short commands: ask the platform one thing and print the answer."""

import dataclasses
import json
import sys
from collections.abc import Callable
from typing import TypeAlias

from molecule_agent import errors
from molecule_agent import peers as peers_of
from molecule_agent.cli import connect, flags
from molecule_agent.client import RemoteAgentClient
from molecule_agent.registration import PREFIX
from molecule_wire.a2a import text
from molecule_wire.calls import inbox as inbox_calls
from molecule_wire.calls import workspaces

Command: TypeAlias = Callable[[RemoteAgentClient, object], int | None]

_SHOWN = ("id", "name", "role", "status", "delivery_mode", "url", "parent_id", "pending")
_LISTED = 100


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
    peer, question = flags.text(args, "peer"), flags.text(args, "text")
    if flags.plain(args, "wait_for_answer") is True:
        print(client.ask(peer, question))
        return
    envelope = client.call_peer(peers_of.resolve(client, peer), question)
    if "error" in envelope:
        raise errors.A2AError(-32603, json.dumps(envelope["error"]))
    answer = text.text_of(envelope.get("result"))
    print(answer or "queued; --wait waits for the answer")


def inbox(client: RemoteAgentClient, args: object) -> None:
    """Print what waits for this agent, without touching it."""
    found = client._perform(inbox_calls.peek(client.workspace_id, limit=_LISTED), inbox_calls.read_peeked)
    if flags.plain(args, "json") is True:
        print(json.dumps([message.raw for message in found.messages], indent=2))
        return
    for message in found.messages:
        sender = message.peer_name or message.source
        print(
            f"{message.message_id or message.activity_id}  {sender}: {' '.join(message.text.split())[:100]}"
        )
    print(f"{found.pending} waiting, {found.leased} in hand, {found.dead} dead")


def reply(client: RemoteAgentClient, args: object) -> None:
    """Answer a message that waits in the inbox."""
    request = inbox_calls.answer(
        client.workspace_id, flags.text(args, "message"), text=flags.text(args, "text")
    )
    client._perform(request, workspaces.read_nothing)
    print("answered")


def notify(client: RemoteAgentClient, args: object) -> None:
    """Tell the people of the organisation something."""
    client.notify(flags.text(args, "text"))
    print("sent")


def delegate(client: RemoteAgentClient, args: object) -> None:
    """Ask a peer for a piece of work; print under which id."""
    peer = peers_of.resolve(client, flags.text(args, "peer"))
    made = client.delegate(flags.text(args, "task"), peer)
    print(f"{made.get('delegation_id', '')}  {made.get('status', '')}")


def enrol(client: RemoteAgentClient, args: object) -> None:
    """Exchange an enrolment token for a token of the workspace."""
    token = client.reenrol(flags.required(args, flags.by_name("--enrolment-token")))
    print(f"enrolled {client.workspace_id}; token {token[:PREFIX]}…")


def run(command: Command, args: object) -> int:
    """Run a command; returns the exit code."""
    try:
        with connect.open_client(args) as client:
            return command(client, args) or 0
    except (flags.UsageError, errors.ConfigurationError, errors.PluginNameError) as error:
        return _fail(error, 2)
    except (errors.MoleculeError, OSError) as error:  # what `requests` raises is an OSError
        return _fail(error, 1)
    except ValueError as error:
        return _fail(error, 2)


def _fail(error: Exception, code: int) -> int:
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
    return code
